// Where bytes come from: an interface the caller may implement; host, pinned and GPU memory; and adaptors that count,
// limit, and try again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tern/export.h"
#include "tern/status.h"
#include "tern/types.h"

namespace tern {

// Where a call was written: as a default argument, the line of the caller.
struct CallSite {
  const char* file = "";
  int line = 0;
  static constexpr CallSite here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

// Memory of one device. Implementations are thread-safe.
class MemoryResource {
 public:
  struct Request {
    std::size_t bytes = 0;
    std::size_t alignment = 64;  // a power of two
    const char* tag = "";        // who asks; shown in leak reports, so it must outlive the allocation
    CallSite where = CallSite::here();
  };

  virtual ~MemoryResource() = default;
  // A request for no bytes answers nullptr.
  virtual Result<void*> allocate(const Request& request) = 0;
  // Bytes as asked for. A block that is not live here is an error where the resource can know it.
  virtual Status deallocate(void* data, std::size_t bytes) = 0;
  [[nodiscard]] virtual DeviceId device() const = 0;
  // What an adaptor hands on to; null when there is nothing behind.
  [[nodiscard]] virtual const MemoryResource* upstream() const { return nullptr; }
  // Gives back to the system what is kept for the next allocation.
  virtual Status release_unused() { return {}; }
};

// The process's own memory, 64-byte aligned or more. Blocks of megabytes ask for huge pages.
TERN_API std::shared_ptr<MemoryResource> host_memory();

// Host memory that GPUs read and write by themselves, at full speed. gpu_not_available without one.
TERN_API Result<std::shared_ptr<MemoryResource>> pinned_memory();

// What a GPU has, and what a resource of it holds.
struct GpuMemoryInfo {
  std::size_t total_bytes = 0, free_bytes = 0;  // of the device, all programs counted
  std::size_t reserved_bytes = 0, in_use_bytes = 0;
  std::size_t reserved_peak_bytes = 0, in_use_peak_bytes = 0;
  [[nodiscard]] double fragmentation() const {  // share of what is reserved that nobody uses
    return reserved_bytes == 0 ? 0 : 1 - static_cast<double>(in_use_bytes) / static_cast<double>(reserved_bytes);
  }
};

// Memory of one GPU, 256-byte aligned, from a pool that keeps up to `kept_bytes` for the next allocation. A block is
// freed when the work that was put on the streams of its context before is done; nobody waits for it. A block that is
// not live here is refused.
class GpuMemory : public MemoryResource {
 public:
  [[nodiscard]] virtual Result<GpuMemoryInfo> info() const = 0;
  virtual Status reset_peaks() = 0;
};
TERN_API Result<std::shared_ptr<GpuMemory>> gpu_memory(int index, std::size_t kept_bytes = std::size_t{1} << 30);

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
  std::string where = {};      // "quantize.cpp:61": who called
};

// Counts what passes through to any other resource, and refuses foreign and double frees.
class StatisticsResource : public MemoryResource {
 public:
  [[nodiscard]] virtual MemoryStatistics statistics() const = 0;
  [[nodiscard]] virtual std::vector<LiveAllocation> live() const = 0;  // the leak report, oldest first
  virtual void reset_peak() = 0;                                       // the peak restarts at what is in use
};

TERN_API std::shared_ptr<StatisticsResource> with_statistics(std::shared_ptr<MemoryResource> upstream);

// At most so many bytes at a time; more is insufficient_memory, with what was asked for and what is left.
TERN_API std::shared_ptr<MemoryResource> with_limit(std::shared_ptr<MemoryResource> upstream, std::size_t bytes);

// Where memory runs out: calls make_room, or upstream's release_unused() where there is none, and tries again, up to so
// many times.
TERN_API std::shared_ptr<MemoryResource> with_retry(std::shared_ptr<MemoryResource> upstream,
                                                    std::function<void()> make_room = {}, int attempts = 1);

}  // namespace tern
