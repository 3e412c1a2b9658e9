// A Context is one device with its threads or streams, its memory and its observer. Plans are made for a Context.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tern/device.h"
#include "tern/export.h"
#include "tern/memory.h"
#include "tern/observer.h"
#include "tern/status.h"
#include "tern/tensor.h"

namespace tern {

// Runs task(slot) for every slot in [0, slots), each exactly once, on any threads; returns when all are done.
using ParallelFor = std::function<void(int slots, const std::function<void(int slot)>& task)>;

inline constexpr int kMaxThreads = 4096;  // a larger number is taken for a typing error

struct ContextConfig {
  int threads = 0;                              // 1 to kMaxThreads; 0: TERN_THREADS, or all usable threads
  std::shared_ptr<MemoryResource> memory = {};  // null: host_memory(), or for a GPU a gpu_memory() of its own
  std::shared_ptr<Observer> observer = {};      // null: nobody watches
  ParallelFor parallel_for = {};                // empty: the library's own pool

  // Of a GPU:
  std::size_t pool_bytes = std::size_t{1} << 30;  // freed memory that the pool keeps for later allocations
  int streams = 4;                                // 1 to 64

  bool profiling = false;  // count runs and their time, for profile()

  // Of a GPU, of the context's own memory: taken from the driver when the context opens, pool_bytes at most.
  std::size_t preallocate_bytes = 0;

  std::vector<std::shared_ptr<Observer>> observers = {};  // further ones, called after `observer` in this order
};

namespace detail {
struct ContextState;
}

class Event;

// A queue of work: what is put on one stream runs in that order, different streams run side by side. On a CPU the work
// is done when run() returns. A handle, valid as long as its context.
class Stream {
 public:
  Stream() = default;

  TERN_API Status synchronize() const;  // waits for all work on the stream, then returns status()
  // Waits, and returns the first error that kernels on this stream found in their data (non-finite values, invalid
  // codes or scales) since status() was last called. Each finding is reported once.
  TERN_API Status status() const;
  TERN_API Status wait(const Event& event) const;    // later work on this stream waits for the event
  [[nodiscard]] TERN_API void* cuda_stream() const;  // the cudaStream_t; null on a CPU

 private:
  friend class Context;
  friend struct detail::ContextState;
  Stream(const detail::ContextState* owner, int lane) : owner_(owner), lane_(lane) {}
  const detail::ContextState* owner_ = nullptr;
  int lane_ = 0;
};

// A point in the order of a stream, with its time.
class Event {
 public:
  TERN_API ~Event();
  TERN_API Event(Event&&) noexcept;
  TERN_API Event& operator=(Event&&) noexcept;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  TERN_API Status record(const Stream& stream);
  TERN_API Status synchronize() const;  // waits until the stream has reached it
  // Both events must have been reached.
  [[nodiscard]] TERN_API Result<double> milliseconds_since(const Event& earlier) const;

 private:
  friend class Context;
  friend class Stream;
  struct Impl;
  explicit Event(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Runs of one kernel and how long they took: on a GPU by events. Runs side by side each count their whole time; a model
// is quantized in many of them, each of some rows on one thread.
struct KernelTime {
  std::string kernel = {};
  std::int64_t runs = 0;
  double milliseconds = 0;
};

// A handle: copies share one device state. Thread-safe.
class Context {
 public:
  // The CPU, or what TERN_DEVICE names.
  static TERN_API Result<Context> open(ContextConfig config = {});
  static TERN_API Result<Context> open(DeviceId device, ContextConfig config = {});

  [[nodiscard]] TERN_API const Device& device() const;
  [[nodiscard]] TERN_API int threads() const;
  [[nodiscard]] TERN_API const std::shared_ptr<MemoryResource>& memory() const;
  [[nodiscard]] TERN_API Stream stream(int index = 0) const;  // modulo the number of streams
  [[nodiscard]] TERN_API int streams() const;                 // 1 on a CPU
  // The caller's own cudaStream_t as a stream of this context; it must stay valid until release(), or as long as the
  // context.
  [[nodiscard]] TERN_API Result<Stream> wrap(void* cuda_stream) const;
  TERN_API Status release(const Stream& wrapped) const;
  [[nodiscard]] TERN_API Result<Event> event() const;
  TERN_API Status synchronize() const;  // all streams; the first error found on any

  // A tensor in this context's memory, and copies between any two devices, ordered on a stream. Both sides have the
  // same dtype and shape; rows may be strided. Host memory that is not pinned makes a copy synchronous.
  [[nodiscard]] TERN_API Result<Tensor> allocate(DType dtype, const Shape& shape, const char* tag = "tensor",
                                                 CallSite where = CallSite::here()) const;
  TERN_API Status copy(const TensorView& to, const ConstTensorView& from, const Stream& stream) const;

  // How much this context's own memory resource holds, and the device's total and free bytes.
  [[nodiscard]] TERN_API Result<GpuMemoryInfo> memory_info() const;
  // Checks before work that `bytes` and a fifth more are free; returns insufficient_memory if not.
  TERN_API Status ensure_ready(std::size_t bytes) const;
  // The kernels' times since the last call, when profiling is on. Waits for running work.
  [[nodiscard]] TERN_API Result<std::vector<KernelTime>> profile() const;

  [[nodiscard]] const detail::ContextState& state() const { return *state_; }

 private:
  explicit Context(std::shared_ptr<const detail::ContextState> state) : state_(std::move(state)) {}
  std::shared_ptr<const detail::ContextState> state_ = {};
  friend struct detail::ContextState;
  template <class Op>
  friend class Plan;
};

}  // namespace tern
