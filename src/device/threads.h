// Runs one task per slot on a pool of threads, or on the caller's own parallel-for.
#pragma once

#include <atomic>
#include <memory>

#include "tern/context.h"

namespace tern {

// What a kernel asks for is a number of slots; each slot is run exactly once, and slots may share a thread. A slot has
// its own part of the workspace. Floating-point modes are set for each slot.
class Threads {
 public:
  using Task = void (*)(void* context, int slot);

  explicit Threads(int count, ParallelFor parallel_for = {});
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  [[nodiscard]] int count() const { return count_; }

  // Returns when every slot is done. Safe to call from several threads at once, not from inside a task.
  void run(int slots, Task task, void* context) const;

  // The same for a callable taking (int slot).
  template <class F>
  void run(int slots, F&& f) const {
    using Callable = std::remove_reference_t<F>;
    run(
        slots, [](void* context, int slot) { (*static_cast<Callable*>(context))(slot); },
        const_cast<void*>(static_cast<const void*>(&f)));  // NOLINT: the task gives the type back
  }

 private:
  struct Pool;
  Pool* pool() const;
  int count_;
  ParallelFor parallel_for_;
  mutable std::atomic<Pool*> pool_{nullptr};
};

// Hands out [0, items) to slots in pieces of `grain`, so that a slow slot takes fewer.
class WorkQueue {
 public:
  WorkQueue(std::int64_t items, std::int64_t grain) : items_(items), grain_(grain) {}
  // The next piece, or false when none is left.
  bool next(std::int64_t& begin, std::int64_t& end) {
    begin = next_.fetch_add(grain_, std::memory_order_relaxed);
    if (begin >= items_) return false;
    end = begin + grain_ < items_ ? begin + grain_ : items_;
    return true;
  }

 private:
  std::int64_t items_, grain_;
  alignas(64) std::atomic<std::int64_t> next_{0};
};

}  // namespace tern
