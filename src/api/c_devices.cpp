// The C ABI: the inventory of devices and the list of kernels.
#include "api/c_handles.h"

namespace tern::c {
namespace {

// Pointers to strings, for C. The strings must outlive them.
std::vector<const char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<const char*> pointers;
  for (const std::string& s : strings) pointers.push_back(s.c_str());
  return pointers;
}

}  // namespace

std::uint64_t mask_of(Capabilities capabilities) {
  std::uint64_t mask = 0;
  for (int i = 0; i < kCapabilityCount; ++i)
    if (capabilities.has(static_cast<Capability>(i))) mask |= std::uint64_t{1} << i;
  return mask;
}

Status check_index(const char* where, std::size_t index, std::size_t count) {
  if (index >= count) return error(Code::invalid_argument, where, "index is {}, but there are only {}", index, count);
  return {};
}

DeviceFace::DeviceFace(Device from) : device(std::move(from)) {
  for (const Cache& cache : device.caches) caches.push_back(face_of(cache));
  for (const NumaNode& node : device.numa_nodes) nodes.push_back(face_of(node));
  for (const auto& cache : caches) cache_pointers.push_back(&cache);
  for (const auto& node : nodes) node_pointers.push_back(&node);
  if (device.gpu) gpu = face_of(*device.gpu);
  info = face_of(device, *this);
}

KernelFace::KernelFace(KernelDescription from)
    : kernel(std::move(from)),
      needs(pointers_to(kernel.needs)),
      dtypes(pointers_to(kernel.dtypes)),
      schemes(pointers_to(kernel.schemes)),
      info(face_of(kernel, *this)) {}

}  // namespace tern::c

tern_inventory::tern_inventory(tern::Inventory from) : notes(std::move(from.notes)) {
  for (tern::Device& device : from.devices) devices.push_back(std::make_unique<tern::c::DeviceFace>(std::move(device)));
}

tern_kernel_list::tern_kernel_list(std::vector<tern::KernelDescription> from) {
  for (tern::KernelDescription& kernel : from)
    kernels.push_back(std::make_unique<tern::c::KernelFace>(std::move(kernel)));
}
