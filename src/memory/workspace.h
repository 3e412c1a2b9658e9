// A ledger of scratch memory: parts are booked when a plan is made, and taken from the caller's bytes when it runs.
#pragma once

#include <cstddef>

#include "base/checked.h"

namespace tern {

inline constexpr std::size_t kWorkspaceAlignment = 64;

// Book parts in the same order at plan time (base null: only counts) and at run time (hands out pointers).
class WorkspaceLedger {
 public:
  explicit WorkspaceLedger(std::byte* base) : base_(base) {}

  template <class T>
  T* book(std::size_t count) {
    auto* part = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + bytes_);  // NOLINT: raw bytes become T
    bytes_ += round_up(count * sizeof(T), kWorkspaceAlignment);
    return part;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  std::size_t bytes_ = 0;
};

}  // namespace tern
