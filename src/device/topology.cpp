// Reads the host's topology from hwloc, or from Linux in builds without hwloc.
#include "device/topology.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "build_config.h"
#include "device/isa.h"

#if TERN_HAVE_HWLOC
#include <hwloc.h>
#endif

namespace tern {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (colon != std::string::npos && (line.starts_with("model name") || line.starts_with("Model")))
      return line.substr(colon + 2);
  }
  return "unknown processor";
}

// The value of a line of /proc/meminfo, such as "MemTotal:"; 0 if there is no such line. hwloc's total is not used: it
// sums the NUMA nodes, which lag behind when the memory of a virtual machine grows.
std::size_t meminfo_bytes(std::string_view line) {
  std::ifstream file("/proc/meminfo");
  for (std::string key, unit; file >> key;) {
    std::size_t kib = 0;
    file >> kib;
    if (key == line) return kib * 1024;
    std::getline(file, unit);
  }
  return 0;
}

// The cgroup's CPU time as a number of processors, rounded up; 0 when there is no quota.
int cgroup_quota_threads() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::max(1, static_cast<int>((std::stod(quota) + period - 1) / period));
}

#if TERN_HAVE_HWLOC

std::vector<int> indices_of(hwloc_const_bitmap_t set) {
  std::vector<int> indices;
  for (int i = hwloc_bitmap_first(set); i >= 0; i = hwloc_bitmap_next(set, i)) indices.push_back(i);
  return indices;
}

void add_caches(hwloc_topology_t topology, Device& device) {
  for (const auto type : {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L1ICACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE}) {
    const int count = hwloc_get_nbobjs_by_type(topology, type);
    if (count <= 0) continue;
    const hwloc_obj_t first = hwloc_get_obj_by_type(topology, type, 0);
    const auto& cache = first->attr->cache;
    const char* kind = cache.type == HWLOC_OBJ_CACHE_DATA          ? "data"
                       : cache.type == HWLOC_OBJ_CACHE_INSTRUCTION ? "instruction"
                                                                   : "unified";
    device.caches.push_back({.level = static_cast<int>(cache.depth),
                             .type = kind,
                             .bytes = cache.size,
                             .line_bytes = cache.linesize,
                             .shared_by = std::max(1, hwloc_bitmap_weight(first->cpuset)),
                             .count = count});
  }
}

bool read_hwloc(Device& device) {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return false;
  hwloc_topology_set_icache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_load(topology) != 0) {
    hwloc_topology_destroy(topology);
    return false;
  }
  device.sockets = std::max(1, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE));
  device.cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
  device.hardware_threads = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
  add_caches(topology, device);
  for (int i = 0; i < hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE); ++i) {
    const hwloc_obj_t node = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(i));
    device.numa_nodes.push_back({.id = static_cast<int>(node->os_index),
                                 .memory_bytes = node->attr->numanode.local_memory,
                                 .cpus = indices_of(node->cpuset)});
  }
  hwloc_topology_destroy(topology);
  return true;
}

#else

bool read_hwloc(Device&) { return false; }

#endif

}  // namespace

std::vector<int> allowed_processors() {
  std::vector<int> allowed;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) allowed.push_back(i);
  return allowed;
}

int usable_threads() {
  int threads = static_cast<int>(allowed_processors().size());
  if (threads == 0) threads = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int quota = cgroup_quota_threads();
  return std::max(1, quota > 0 ? std::min(threads, quota) : threads);
}

std::size_t available_memory_bytes() { return meminfo_bytes("MemAvailable:"); }

Device host_topology(std::vector<std::string>& notes) {
  Device device;
  device.id = {DeviceKind::cpu, 0};
  device.name = processor_name();
  device.architecture = cpu_architecture();
  device.cpu = detect_cpu_model();
  device.usable_threads = usable_threads();
  device.memory_total_bytes = meminfo_bytes("MemTotal:");
  device.memory_available_bytes = available_memory_bytes();
  if (!read_hwloc(device)) {
    device.sockets = 1;
    device.cores = device.hardware_threads = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
    notes.emplace_back(TERN_HAVE_HWLOC ? "caches and NUMA nodes: hwloc could not read this machine"
                                       : "caches and NUMA nodes: this build has no hwloc");
  }
  return device;
}

const Device& host_device() {
  static const Device device = [] {
    std::vector<std::string> notes;
    Device d = host_topology(notes);
    d.capabilities = detect_cpu_capabilities();
    return d;
  }();
  return device;
}

}  // namespace tern
