// A Context is one device with its threads, memory and observer. Plans are made for a Context.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "tern/device.h"
#include "tern/export.h"
#include "tern/memory.h"
#include "tern/observer.h"
#include "tern/status.h"

namespace tern {

// Runs task(slot) for every slot in [0, slots), each exactly once, on any threads; returns when all are done.
using ParallelFor = std::function<void(int slots, const std::function<void(int slot)>& task)>;

struct ContextConfig {
  int threads = 0;                              // 0: TERN_THREADS, else what the process may use
  std::shared_ptr<MemoryResource> memory = {};  // null: host_memory()
  std::shared_ptr<Observer> observer = {};      // null: nobody watches
  ParallelFor parallel_for = {};                // empty: the library's own pool
};

namespace detail {
struct ContextState;
}

// Where work is ordered. On a CPU work is done when run() returns.
class Stream {
 public:
  Stream() = default;

 private:
  friend class Context;
  friend struct detail::ContextState;
  explicit Stream(const detail::ContextState* owner) : owner_(owner) {}
  const detail::ContextState* owner_ = nullptr;
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
  [[nodiscard]] TERN_API Stream stream() const;  // the default stream of this context

  [[nodiscard]] const detail::ContextState& state() const { return *state_; }

 private:
  explicit Context(std::shared_ptr<const detail::ContextState> state) : state_(std::move(state)) {}
  std::shared_ptr<const detail::ContextState> state_ = {};
  template <class Op>
  friend class Plan;
};

}  // namespace tern
