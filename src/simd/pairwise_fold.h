// Adds sums of blocks in adjacent pairs, level by level; a sum without a partner moves up a level. Memory is
// logarithmic.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::simd {
namespace {

// A binary counter: after n values, part_[l] is the sum of 2^l neighbours for every set bit l of n. total() adds these
// parts from the newest (lowest) upwards, each older part on the left, as the level-by-level fold does.
class PairwiseFold {
 public:
  void add(double value) {
    int level = 0;
    for (std::uint64_t n = count_; (n & 1U) != 0; n >>= 1U) value = part_[level++] + value;
    part_[level] = value;
    ++count_;
  }
  [[nodiscard]] double total() const {
    double sum = 0;
    bool any = false;
    for (int level = 0; level < 64; ++level)
      if (((count_ >> level) & 1U) != 0) {
        sum = any ? part_[level] + sum : part_[level];
        any = true;
      }
    return sum;
  }

 private:
  double part_[64];  // only the parts of set bits are ever read
  std::uint64_t count_ = 0;
};

inline constexpr std::size_t kSumBlock = 1024;  // elements; the order of sums in docs/numerics.md
inline constexpr std::size_t kSumLanes = 32;

}  // namespace
}  // namespace tern::simd
