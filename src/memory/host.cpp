// Host memory from the C library.
#include <algorithm>
#include <cstdlib>

#include "base/errors.h"
#include "tern/memory.h"

namespace tern {
namespace {

constexpr std::size_t kMinAlignment = 64;  // a cache line: no two allocations share one

class HostMemory final : public MemoryResource {
 public:
  Result<void*> allocate(const Request& request) override {
    if (request.alignment == 0 || (request.alignment & (request.alignment - 1)) != 0)
      return error(Code::invalid_argument, "host_memory", "alignment {} is not a power of two", request.alignment);
    if (request.bytes == 0) return static_cast<void*>(nullptr);
    void* data = nullptr;
    if (posix_memalign(&data, std::max(request.alignment, kMinAlignment), request.bytes) != 0)
      return error(Code::memory_allocation, "host_memory", "{} bytes for '{}' could not be allocated", request.bytes,
                   request.tag);
    return data;
  }

  Status deallocate(void* data, std::size_t /*bytes*/) override {
    std::free(data);  // NOLINT(cppcoreguidelines-no-malloc)
    return {};
  }

  [[nodiscard]] DeviceId device() const override { return {DeviceKind::cpu, 0}; }
};

}  // namespace

std::shared_ptr<MemoryResource> host_memory() {
  static const auto memory = std::make_shared<HostMemory>();
  return memory;
}

}  // namespace tern
