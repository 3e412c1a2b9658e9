// Which prefill kernel, which tiles and in what order: the tunings of wgmma and what each should take. For .cu files
// only.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "ops/linear/cuda_wgmma_split.h"

namespace tern::linear {
namespace {

// --- which kernel ---

struct WgmmaShapeInfo {
  int rows, width, tail;
};
// As with_wgmma_shape() instantiates them.
constexpr WgmmaShapeInfo kWgmmaShapes[] = {{256, 128, 64},  {256, 96, 48},  {256, 80, 80},
                                           {128, 256, 128}, {128, 128, 64}, {128, 64, 32},
                                           {128, 32, 16},   {256, 128, 64}, {128, 256, 128}};
constexpr int kWgmmaShapeCount = sizeof(kWgmmaShapes) / sizeof(kWgmmaShapes[0]);

template <class F>
int with_wgmma_shape(int shape, F f) {
  switch (shape) {
    case 1: return f.template operator()<WgmmaShape<2, 96, 48>>();
    case 2: return f.template operator()<WgmmaShape<2, 80, 80>>();
    case 3: return f.template operator()<WgmmaShape<1, 256, 128>>();
    case 4: return f.template operator()<WgmmaShape<1, 128, 64>>();
    case 5: return f.template operator()<WgmmaShape<1, 64, 32>>();
    case 6: return f.template operator()<WgmmaShape<1, 32, 16>>();
    case 7: return f.template operator()<WgmmaShape<2, 128, 64, 4>>();
    case 8: return f.template operator()<WgmmaShape<1, 256, 128, 4>>();
    default: return f.template operator()<WgmmaShape<2, 128, 64>>();
  }
}

// The tiles of 128 rows of the kernel whose blocks share them, as with_split_shape() instantiates them.
constexpr int kSplitWidths[] = {16, 32, 48, 64, 96, 128};
constexpr int kSplitShapeCount = sizeof(kSplitWidths) / sizeof(kSplitWidths[0]);

template <class F>
int with_split_shape(int shape, F f) {
  switch (shape) {
    case 0: return f.template operator()<SplitShape<16>>();
    case 1: return f.template operator()<SplitShape<32>>();
    case 2: return f.template operator()<SplitShape<48>>();
    case 3: return f.template operator()<SplitShape<64>>();
    case 4: return f.template operator()<SplitShape<96>>();
    default: return f.template operator()<SplitShape<128>>();
  }
}

struct WgmmaTuning {
  int shape = 0;          // of kWgmmaShapes, or of kSplitWidths where tiles are shared
  int split = 0;          // blocks that share a tile: 1, 2, 4 or 8; 0: the other kernel, and the rest is for that
  int cluster = 1;        // 1 or 2 blocks share x
  int lead = 0;           // steps by which the second warpgroup follows the first; 0: it does not
  int group = 16;         // token blocks that take the rows together
  bool tails = true;      // the last wave in narrower tiles, where that is shorter
  bool dependent = true;  // starts while the kernel before runs out
};

// --- what a tuning takes ---
//
// In microseconds of an H200, fitted to measurements of 25 problems there; only ratios matter. A step of 128 columns
// takes its products, or the way from one to the next where they are few; what nothing hides of a tile's end grows with
// its results.
constexpr double kLaunchUs = 1.5, kTailUs = 0.5;
constexpr double kProductUs = 0.583 / 32768;  // a row of weights by 128 columns of a token

inline double either(double a, double b) { return std::sqrt(std::sqrt(a * a * a * a + b * b * b * b)); }

inline double wgmma_tile_us(int rows, int width, std::int64_t steps) {
  return static_cast<double>(steps) * either(rows * width * kProductUs, rows > 128 ? 0.42 : 0.25) + 0.5 +
         rows * width * 1.25e-4;
}

// The tiles of matrices of n[] rows for that tuning.
inline WgmmaTiles wgmma_tiles(const std::int64_t* n, std::size_t count, std::int64_t m, std::int64_t k,
                              const WgmmaTuning& tuning, int multiprocessors) {
  const WgmmaShapeInfo& shape = kWgmmaShapes[tuning.shape];
  WgmmaTiles tiles = {};
  tiles.matrices = static_cast<int>(count);
  tiles.rows = shape.rows * tuning.cluster;
  for (std::size_t i = 0; i < count; ++i) {
    tiles.first_block[i] = tiles.row_blocks;
    tiles.row_blocks += static_cast<int>(ceil_div(n[i], tiles.rows));
  }
  tiles.width = shape.width;
  tiles.tail = shape.tail;
  tiles.cuts = shape.width / shape.tail;
  tiles.token_blocks = static_cast<int>(ceil_div(m, shape.width));
  tiles.group = std::clamp(tuning.group, 1, tiles.token_blocks);
  const int all = tiles.row_blocks * tiles.token_blocks, workers = std::max(1, multiprocessors / tuning.cluster);
  tiles.whole = all;
  if (tuning.tails && tiles.cuts > 1) {
    const int left = all % workers;
    const auto us = [&](int width) { return wgmma_tile_us(shape.rows, width, ceil_div(k, TileMma::kColumns)); };
    if (left > 0 &&
        static_cast<double>(ceil_div(left * tiles.cuts, workers)) * (us(shape.tail) + kTailUs) < us(shape.width))
      tiles.whole = all - left;
  }
  tiles.items = tiles.whole + (all - tiles.whole) * tiles.cuts;
  return tiles;
}

// Whole waves, and the last one.
inline double wgmma_us(const WgmmaTiles& tiles, const WgmmaTuning& tuning, std::int64_t k, int multiprocessors) {
  const WgmmaShapeInfo& shape = kWgmmaShapes[tuning.shape];
  const std::int64_t workers = std::max(1, multiprocessors / tuning.cluster), steps = ceil_div(k, TileMma::kColumns);
  return kLaunchUs +
         static_cast<double>(ceil_div(tiles.whole, workers)) * wgmma_tile_us(shape.rows, shape.width, steps) +
         static_cast<double>(ceil_div(tiles.items - tiles.whole, workers)) *
             (wgmma_tile_us(shape.rows, shape.tail, steps) + kTailUs);
}

// Of the kernel whose blocks share tiles. The blocks of a multiprocessor share its products; all that they load comes
// from the L2 cache; sums go from block to block. Estimated, not yet measured.
inline double split_us(std::int64_t row_blocks, std::int64_t m, std::int64_t k, int width, int split,
                       int multiprocessors) {
  constexpr double kCache = 5e6, kNetwork = 2.5e6;  // bytes
  const std::int64_t tiles = row_blocks * ceil_div(m, width), steps = ceil_div(k, TileMma::kColumns);
  const std::int64_t slots = std::max(1, (width <= 96 ? 2 : 1) * multiprocessors - (split - 1) * 4);
  double us = kLaunchUs + 0.8;
  for (std::int64_t left = tiles * split; left > 0; left -= slots) {
    const std::int64_t blocks = std::min(left, slots);
    const double each = static_cast<double>(ceil_div(blocks, multiprocessors));  // of a multiprocessor
    const double of_block = static_cast<double>(ceil_div(steps, split));
    const double products = of_block * either(each * kSplitRows * width * kProductUs, 0.16);
    const double loads = static_cast<double>(blocks) * of_block * (kSplitRows * 32 + width * 128) / kCache;
    us += std::max(products, loads) + each * static_cast<double>(ceil_div(width / split, kSplitWarps)) * 0.12;
    if (left > 16 * slots) return 1e9;  // far too many
  }
  if (split > 1) us += 0.5 + static_cast<double>(tiles * width * (split - 1)) * kSplitRows * 4 / kNetwork;
  return us;
}

// The kernel that should be the fastest.
inline WgmmaTuning wgmma_tuning(const std::int64_t* n, std::size_t count, std::int64_t m, std::int64_t k,
                                int multiprocessors) {
  constexpr int kChosen = 7;           // of kWgmmaShapes
  constexpr std::int64_t kFew = 1024;  // tokens; more are never shared
  WgmmaTuning best;
  double least = 0;
  for (int shape = 0; shape < kChosen; ++shape) {
    WgmmaTuning tuning;
    tuning.shape = shape;
    const double us = wgmma_us(wgmma_tiles(n, count, m, k, tuning, multiprocessors), tuning, k, multiprocessors);
    if (shape == 0 || us < least) {
      least = us;
      best = tuning;
    }
  }
  std::int64_t row_blocks = 0;
  for (std::size_t i = 0; i < count; ++i) row_blocks += ceil_div(n[i], kSplitRows);
  for (int shape = 0; shape < kSplitShapeCount && m <= kFew; ++shape)
    for (int split = 1; split <= kMostSplit && split <= ceil_div(k, TileMma::kColumns); split *= 2) {
      const double us = split_us(row_blocks, m, k, kSplitWidths[shape], split, multiprocessors);
      if (us >= least) continue;
      least = us;
      best = {.shape = shape, .split = split};
    }
  return best;
}
inline WgmmaTuning wgmma_tuning(const Params& p, int multiprocessors) {
  std::int64_t n[Linear::kMaxMatrices];
  for (std::size_t i = 0; i < p.count; ++i) n[i] = p.matrices[i].spec.n;
  return wgmma_tuning(n, p.count, p.m, p.k, multiprocessors);
}

}  // namespace
}  // namespace tern::linear
