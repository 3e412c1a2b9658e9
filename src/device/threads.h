// Runs one task per slot on a pool of threads, or on the caller's own parallel-for.
#pragma once

#include <algorithm>
#include <atomic>
#include <span>

#include "tern/context.h"

namespace tern {

// A kernel asks for a number of slots. Each slot runs exactly once; several slots may run on one thread. Each slot has
// its own part of the workspace. The floating-point modes are set for each slot.
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
        const_cast<void*>(static_cast<const void*>(&f)));  // NOLINT: the task casts it back
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

// Like WorkQueue, but each slot has a share of [0, items) and takes from it first, so that the memory it reads in every
// call stays near its processor. A slot that has finished its share helps the others. A piece is a third of what is
// left of a share, in whole grains.
class SharedWork {
 public:
  struct alignas(64) Share {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };
  // `shares` is the caller's memory, one element for each slot.
  SharedWork(std::span<Share> shares, std::int64_t items, std::int64_t grain) : shares_(shares), grain_(grain) {
    const auto count = static_cast<std::int64_t>(shares.size()), grains = (items + grain - 1) / grain;
    for (std::int64_t i = 0; i < count; ++i) {
      Share& share = shares[static_cast<std::size_t>(i)];
      share.next.store(grains * i / count * grain, std::memory_order_relaxed);
      share.end = std::min(grains * (i + 1) / count * grain, items);
    }
  }
  bool next(int slot, std::int64_t& begin, std::int64_t& end) {
    for (std::size_t i = 0; i < shares_.size(); ++i)
      if (take(shares_[(static_cast<std::size_t>(slot) + i) % shares_.size()], begin, end)) return true;
    return false;
  }

 private:
  bool take(Share& share, std::int64_t& begin, std::int64_t& end) const {
    const bool alone = shares_.size() == 1;
    begin = share.next.load(std::memory_order_relaxed);
    do {
      if (begin >= share.end) return false;
      const std::int64_t left = share.end - begin;
      const std::int64_t some = alone ? left : std::max(left / 3 / grain_, std::int64_t{1}) * grain_;
      end = std::min(begin + some, share.end);
    } while (!share.next.compare_exchange_weak(begin, end, std::memory_order_relaxed));
    return true;
  }

  std::span<Share> shares_;
  std::int64_t grain_;
};

}  // namespace tern
