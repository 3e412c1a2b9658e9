// Sums two terms per element over ranges, in the order of docs/numerics.md: over one range, or over a tile of columns,
// each of which is a range.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/elements.h"
#include "simd/pairwise_fold.h"

namespace tern::fake_quantize_backward {

constexpr auto kBlock = static_cast<std::int64_t>(simd::kSumBlock);
constexpr auto kLanes = static_cast<std::int64_t>(simd::kSumLanes);
constexpr std::int64_t kSegment = 64 * kBlock;  // elements; a power of two of blocks, so it is a subtree of the sum
constexpr std::int64_t kTile = 32;              // columns: two cache lines of f32

struct Sums {
  double steps = 0, outside = 0;
};
struct Terms {
  double* steps;
  double* outside;
};

template <class T>
void multiply(const double* a, const T* b, std::int64_t n, double* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = a[i] * static_cast<double>(b[i]);
}
inline void widen(const void* x, DType dtype, std::int64_t n, double* to) {
  if (dtype == DType::f32)
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<double>(load_element<float>(x, i));
  else
    for (std::int64_t i = 0; i < n; ++i) to[i] = read_element(x, dtype, i);
}

// In an anonymous namespace because its member PairwiseFold is in one.
namespace {

class RangeSums {
 public:
  // One range: write the terms of a block's elements from i on to terms(i), then call add_block() with the block's
  // length.
  Terms terms(std::int64_t i) { return {terms_[0] + i, terms_[1] + i}; }
  void add_block(std::int64_t n) {
    for (int kind = 0; kind < 2; ++kind) folds_[0][kind].add(block_sum(terms_[kind], n));
  }
  Sums take() { return take_column(0); }

  // A tile: row(i) holds the terms of element i of all its ranges, side by side. Call add_row() once for each i, in
  // order.
  Terms row(std::int64_t i) { return {terms_[0] + i % 4 * kTile, terms_[1] + i % 4 * kTile}; }
  void add_row(std::int64_t i, bool last, std::int64_t columns) {
    if (i % 4 != 3 && !last) return;
    for (int kind = 0; kind < 2; ++kind) {
      double* rows = terms_[kind];
      std::fill(rows + (i % 4 + 1) * kTile, rows + 4 * kTile, 0.0);
      double* lane = lanes_[kind][i % kBlock / 4 % kLanes];
      const bool fresh = i % kBlock / 4 < kLanes;  // a lane begins at +0
      for (std::int64_t c = 0; c < columns; ++c) {
        const double quad = (rows[c] + rows[kTile + c]) + (rows[2 * kTile + c] + rows[3 * kTile + c]);
        lane[c] = (fresh ? 0.0 : lane[c]) + quad;
      }
      if (i % kBlock == kBlock - 1 || last) fold_lanes(kind, std::min(i % kBlock / 4 + 1, kLanes), columns);
    }
  }
  Sums take_column(std::int64_t column) {
    simd::PairwiseFold(&fold)[2] = folds_[column];
    const Sums sums{fold[0].total(), fold[1].total()};
    fold[0] = simd::PairwiseFold();
    fold[1] = simd::PairwiseFold();
    return sums;
  }

 private:
  static double block_sum(double* terms, std::int64_t n) {
    const std::int64_t quads = (n + 3) / 4;
    std::fill(terms + n, terms + 4 * quads, 0.0);
    double lanes[kLanes] = {};
    for (std::int64_t q = 0; q < quads; ++q) {
      const double* a = terms + 4 * q;
      lanes[q % kLanes] += (a[0] + a[1]) + (a[2] + a[3]);
    }
    for (std::int64_t half = kLanes / 2; half > 0; half /= 2)
      for (std::int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    return lanes[0];
  }
  // Lanes from `used` on have no quads and count as +0.
  void fold_lanes(int kind, std::int64_t used, std::int64_t columns) {
    auto& lanes = lanes_[kind];
    for (std::int64_t l = used; l < kLanes; ++l) std::fill(lanes[l], lanes[l] + columns, 0.0);
    for (std::int64_t half = kLanes / 2; half > 0; half /= 2)
      for (std::int64_t l = 0; l < half; ++l)
        for (std::int64_t c = 0; c < columns; ++c) lanes[l][c] += lanes[l + half][c];
    for (std::int64_t c = 0; c < columns; ++c) folds_[c][kind].add(lanes[0][c]);
  }

  alignas(64) double terms_[2][kBlock];
  alignas(64) double lanes_[2][kLanes][kTile];
  simd::PairwiseFold folds_[kTile][2];
};

}  // namespace
}  // namespace tern::fake_quantize_backward
