// Cores, caches, NUMA nodes and memory of the host.
#pragma once

#include <vector>

#include "tern/device.h"

namespace tern {

// Describes the CPU except for its capabilities. Adds to `notes` what could not be determined.
Device host_topology(std::vector<std::string>& notes);

// The CPU of this process, detected once: capabilities in full, topology, memory at that time.
const Device& host_device();

// Memory of the host that is free now.
std::size_t available_memory_bytes();

// Threads this process may run at the same time: its affinity mask, and its cgroup's quota rounded up.
int usable_threads();

// The processors of this process's affinity mask, by the system's numbers. Empty if the machine has more processors
// than a cpu_set_t holds.
std::vector<int> allowed_processors();

}  // namespace tern
