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

// The source line of a call: used as a default argument, it is the caller's line.
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
    const char* tag = "";        // who allocates; shown in leak reports, so it must outlive the allocation
    CallSite where = CallSite::here();
  };

  virtual ~MemoryResource() = default;
  // A request for 0 bytes returns nullptr.
  virtual Result<void*> allocate(const Request& request) = 0;
  // `bytes` as in the request. Freeing a block that is not allocated is an error, where the resource can detect it.
  virtual Status deallocate(void* data, std::size_t bytes) = 0;
  [[nodiscard]] virtual DeviceId device() const = 0;
  // The resource that an adaptor forwards to; null if there is none.
  [[nodiscard]] virtual const MemoryResource* upstream() const { return nullptr; }
  // Returns memory that is kept for later allocations to the system.
  virtual Status release_unused() { return {}; }
};

// The process's own memory, aligned to at least 64 bytes. Blocks of several MiB ask for huge pages.
TERN_API std::shared_ptr<MemoryResource> host_memory();

// Page-locked host memory, which GPUs copy from and to at full speed. gpu_not_available where there is no GPU.
TERN_API Result<std::shared_ptr<MemoryResource>> pinned_memory();

// The memory of a GPU, and how much of it a resource holds.
struct GpuMemoryInfo {
  std::size_t total_bytes = 0, free_bytes = 0;  // of the device; free is what no program uses
  std::size_t reserved_bytes = 0, in_use_bytes = 0;
  std::size_t reserved_peak_bytes = 0, in_use_peak_bytes = 0;
  [[nodiscard]] double fragmentation() const {  // share of the reserved bytes that is not in use
    return reserved_bytes == 0 ? 0 : 1 - static_cast<double>(in_use_bytes) / static_cast<double>(reserved_bytes);
  }
};

// Memory of one GPU, 256-byte aligned, from a pool that keeps up to `kept_bytes` for later allocations. A freed block
// is reused only after the work that was on the context's streams at that time; the host does not wait for it. Freeing
// a block that is not allocated is refused.
class GpuMemory : public MemoryResource {
 public:
  [[nodiscard]] virtual Result<GpuMemoryInfo> info() const = 0;
  virtual Status reset_peaks() = 0;
};
// Takes so many bytes and gives them back at once: a pool that keeps that many has them from then on, so that the first
// allocations need not ask the driver, or other programs take the memory in between.
TERN_API Status preallocate(MemoryResource& memory, std::size_t bytes);

TERN_API Result<std::shared_ptr<GpuMemory>> gpu_memory(int index, std::size_t kept_bytes = std::size_t{1} << 30);

struct MemoryStatistics {
  std::size_t bytes_in_use = 0;
  std::size_t peak_bytes = 0;
  std::size_t allocations = 0;  // successful ones
  std::size_t deallocations = 0;
  std::size_t failures = 0;  // allocations that upstream refused; they are never counted as leaks
};

struct LiveAllocation {
  std::string tag = {};
  std::size_t bytes = 0;
  std::uint64_t sequence = 0;  // the allocation's number, counted from the first
  std::string where = {};      // "quantize.cpp:61": the caller
};

// Counts what passes through to another resource, and refuses to free a block twice or one that is not its own.
class StatisticsResource : public MemoryResource {
 public:
  [[nodiscard]] virtual MemoryStatistics statistics() const = 0;
  [[nodiscard]] virtual std::vector<LiveAllocation> live() const = 0;  // the leak report, oldest first
  virtual void reset_peak() = 0;                                       // the peak becomes what is in use now
};

TERN_API std::shared_ptr<StatisticsResource> with_statistics(std::shared_ptr<MemoryResource> upstream);

// Allows at most `bytes` in use at a time. A request beyond that is insufficient_memory, naming what was asked
// for and what is left.
TERN_API std::shared_ptr<MemoryResource> with_limit(std::shared_ptr<MemoryResource> upstream, std::size_t bytes);

// When upstream has no memory, calls make_room (or, without one, upstream's release_unused()) and tries again, up to
// `attempts` times.
TERN_API std::shared_ptr<MemoryResource> with_retry(std::shared_ptr<MemoryResource> upstream,
                                                    std::function<void()> make_room = {}, int attempts = 1);

}  // namespace tern
