// The C ABI: the inventory of devices and the list of kernels.
#include "api/c_abi.h"

namespace tern::c {
namespace {

std::uint64_t mask_of(Capabilities capabilities) {
  std::uint64_t mask = 0;
  for (int i = 0; i < kCapabilityCount; ++i)
    if (capabilities.has(static_cast<Capability>(i))) mask |= std::uint64_t{1} << i;
  return mask;
}

// A KernelDescription as a C struct, with the storage that its pointers need.
struct KernelFace {
  explicit KernelFace(KernelDescription from)
      : kernel(std::move(from)),
        needs(pointers_to(kernel.needs)),
        dtypes(pointers_to(kernel.dtypes)),
        schemes(pointers_to(kernel.schemes)),
        info{.struct_size = sizeof(tern_kernel_info),
             .name = kernel.name.c_str(),
             .op = kernel.op.c_str(),
             .format = kernel.format.c_str(),
             .needs = needs.data(),
             .need_count = needs.size(),
             .dtypes = dtypes.data(),
             .dtype_count = dtypes.size(),
             .schemes = schemes.data(),
             .scheme_count = schemes.size(),
             .in_build = kernel.in_build ? 1 : 0,
             .refused = kernel.refused.c_str()} {}
  KernelFace(const KernelFace&) = delete;
  KernelFace& operator=(const KernelFace&) = delete;

  KernelDescription kernel;
  std::vector<const char*> needs, dtypes, schemes;
  tern_kernel_info info;
};

// A value that the driver did not report is -1 in C, or NAN.
template <class Int, class T>
Int or_unknown(const std::optional<T>& value) {
  return value ? static_cast<Int>(*value) : Int{-1};
}

tern_gpu_info gpu_info(const GpuFacts& gpu) {
  return {.struct_size = sizeof(tern_gpu_info),
          .compute_major = gpu.compute_major,
          .compute_minor = gpu.compute_minor,
          .multiprocessors = gpu.multiprocessors,
          .clock_mhz = gpu.clock_mhz,
          .memory_clock_mhz = gpu.memory_clock_mhz,
          .clock_now_mhz = or_unknown<std::int32_t>(gpu.clock_now_mhz),
          .memory_clock_now_mhz = or_unknown<std::int32_t>(gpu.memory_clock_now_mhz),
          .utilization_percent = or_unknown<std::int32_t>(gpu.utilization_percent),
          .memory_utilization_percent = or_unknown<std::int32_t>(gpu.memory_utilization_percent),
          .l2_bytes = gpu.l2_bytes,
          .driver_version = gpu.driver_version.c_str(),
          .runtime_version = gpu.runtime_version.c_str(),
          .driver = gpu.driver.c_str(),
          .pci_bus_id = gpu.pci_bus_id.c_str(),
          .uuid = gpu.uuid.c_str(),
          .temperature_c = gpu.temperature_c ? static_cast<double>(*gpu.temperature_c) : NAN,
          .power_w = gpu.power_w.value_or(NAN),
          .power_limit_w = gpu.power_limit_w.value_or(NAN),
          .ecc_corrected = or_unknown<std::int64_t>(gpu.ecc_corrected),
          .ecc_uncorrected = or_unknown<std::int64_t>(gpu.ecc_uncorrected)};
}

}  // namespace

Status check_index(const char* where, std::size_t index, std::size_t count) {
  if (index >= count) return error(Code::invalid_argument, where, "index is {}, but there are only {}", index, count);
  return {};
}

DeviceFace::DeviceFace(Device from) : device(std::move(from)) {
  for (const Cache& cache : device.caches)
    caches.push_back({.struct_size = sizeof(tern_cache_info),
                      .level = cache.level,
                      .shared_by = cache.shared_by,
                      .count = cache.count,
                      .type = cache.type.c_str(),
                      .bytes = cache.bytes,
                      .line_bytes = cache.line_bytes});
  for (const NumaNode& node : device.numa_nodes)
    nodes.push_back({.struct_size = sizeof(tern_numa_info),
                     .id = node.id,
                     .memory_bytes = node.memory_bytes,
                     .cpus = node.cpus.data(),
                     .cpu_count = node.cpus.size()});
  for (const auto& cache : caches) cache_pointers.push_back(&cache);
  for (const auto& node : nodes) node_pointers.push_back(&node);
  if (device.gpu) gpu = gpu_info(*device.gpu);
  info = {.struct_size = sizeof(tern_device_info),
          .id = from_device(device.id),
          .name = device.name.c_str(),
          .architecture = device.architecture.c_str(),
          .capabilities = mask_of(device.capabilities),
          .sockets = device.sockets,
          .cores = device.cores,
          .hardware_threads = device.hardware_threads,
          .usable_threads = device.usable_threads,
          .memory_total_bytes = device.memory_total_bytes,
          .memory_available_bytes = device.memory_available_bytes,
          .caches = cache_pointers.data(),
          .cache_count = cache_pointers.size(),
          .numa_nodes = node_pointers.data(),
          .numa_node_count = node_pointers.size(),
          .unusable = device.unusable.c_str(),
          .gpu = device.gpu ? &gpu : nullptr,
          .cpu_vendor = device.cpu.vendor.c_str(),
          .cpu_family = device.cpu.family,
          .cpu_model = device.cpu.model};
}

}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

struct tern_inventory {
  std::vector<std::unique_ptr<DeviceFace>> devices;
  std::vector<std::string> notes;
};

struct tern_kernel_list {
  std::vector<std::unique_ptr<KernelFace>> kernels;
};

tern_status tern_inventory_create(tern_inventory** out) {
  return guarded("tern_inventory_create", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {}));
    TERN_ASSIGN(found, devices());
    auto inventory = std::make_unique<tern_inventory>();
    for (Device& device : found.devices) inventory->devices.push_back(std::make_unique<DeviceFace>(std::move(device)));
    inventory->notes = std::move(found.notes);
    *out = inventory.release();
    return {};
  });
}

void tern_inventory_destroy(tern_inventory* inventory) { delete inventory; }

tern_status tern_inventory_device_count(const tern_inventory* inventory, size_t* out) {
  return count_of("tern_inventory_device_count", "inventory", inventory, &tern_inventory::devices, out);
}

tern_status tern_inventory_device(const tern_inventory* inventory, size_t index, const tern_device_info** out) {
  return guarded("tern_inventory_device", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"inventory", inventory}}));
    TERN_RETURN_IF_ERROR(check_index(where, index, inventory->devices.size()));
    *out = &inventory->devices[index]->info;
    return {};
  });
}

tern_status tern_inventory_note_count(const tern_inventory* inventory, size_t* out) {
  return count_of("tern_inventory_note_count", "inventory", inventory, &tern_inventory::notes, out);
}

tern_status tern_inventory_note(const tern_inventory* inventory, size_t index, const char** out) {
  return hand_out("tern_inventory_note", "inventory", inventory, &tern_inventory::notes, index, out);
}

tern_status tern_kernel_list_create(const tern_context* context, tern_kernel_list** out) {
  return guarded("tern_kernel_list_create", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}}));
    TERN_ASSIGN(found, kernels(context->context));
    auto list = std::make_unique<tern_kernel_list>();
    for (KernelDescription& kernel : found) list->kernels.push_back(std::make_unique<KernelFace>(std::move(kernel)));
    *out = list.release();
    return {};
  });
}

void tern_kernel_list_destroy(tern_kernel_list* list) { delete list; }

tern_status tern_kernel_list_count(const tern_kernel_list* list, size_t* out) {
  return count_of("tern_kernel_list_count", "list", list, &tern_kernel_list::kernels, out);
}

tern_status tern_kernel_list_get(const tern_kernel_list* list, size_t index, const tern_kernel_info** out) {
  return guarded("tern_kernel_list_get", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"list", list}}));
    TERN_RETURN_IF_ERROR(check_index(where, index, list->kernels.size()));
    *out = &list->kernels[index]->info;
    return {};
  });
}
