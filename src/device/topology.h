// Cores, caches, NUMA nodes and memory of the host.
#pragma once

#include <vector>

#include "tern/device.h"

namespace tern {

// Fills everything of a CPU Device but its capabilities. `notes` says what could not be found out.
Device host_topology(std::vector<std::string>& notes);

// The CPU of this process, looked at once: capabilities in full, topology, memory at that time.
const Device& host_device();

// Memory of the host that is free now.
std::size_t available_memory_bytes();

// Threads this process may run at the same time: its affinity mask, and its cgroup's quota rounded up.
int usable_threads();

// The processors of its affinity mask, by the system's numbers; none when it has more than a mask can say.
std::vector<int> allowed_processors();

}  // namespace tern
