// Where bytes come from: an interface the caller may implement, host memory, and an adaptor that counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tern/export.h"
#include "tern/status.h"
#include "tern/types.h"

namespace tern {

// Memory of one device. Implementations are thread-safe.
class MemoryResource {
 public:
  struct Request {
    std::size_t bytes = 0;
    std::size_t alignment = 64;  // a power of two
    const char* tag = "";        // who asks; shown in leak reports, so it must outlive the allocation
  };

  virtual ~MemoryResource() = default;
  // A request for no bytes answers nullptr.
  virtual Result<void*> allocate(const Request& request) = 0;
  // Bytes as asked for. A block that is not live here is an error where the resource can know it.
  virtual Status deallocate(void* data, std::size_t bytes) = 0;
  [[nodiscard]] virtual DeviceId device() const = 0;
};

// The process's own memory, 64-byte aligned or more. Blocks of megabytes ask for huge pages.
TERN_API std::shared_ptr<MemoryResource> host_memory();

struct MemoryStatistics {
  std::size_t bytes_in_use = 0;
  std::size_t peak_bytes = 0;
  std::size_t allocations = 0;  // successful ones
  std::size_t deallocations = 0;
  std::size_t failures = 0;  // refused by the upstream; never counted as a leak
};

struct LiveAllocation {
  std::string tag = {};
  std::size_t bytes = 0;
  std::uint64_t sequence = 0;  // the how-manieth allocation it was
};

// Counts what passes through to any other resource, and refuses foreign and double frees.
class StatisticsResource : public MemoryResource {
 public:
  [[nodiscard]] virtual MemoryStatistics statistics() const = 0;
  [[nodiscard]] virtual std::vector<LiveAllocation> live() const = 0;  // the leak report, oldest first
  virtual void reset_peak() = 0;                                       // the peak restarts at what is in use
};

TERN_API std::shared_ptr<StatisticsResource> with_statistics(std::shared_ptr<MemoryResource> upstream);

}  // namespace tern
