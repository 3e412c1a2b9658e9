// Chooses the prefill kernel, its tiles and their order, by an estimate of the time that each tuning takes. For .cu
// files only.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/checked.h"
#include "ops/linear/cuda_wgmma_split.h"

namespace tern::linear {
namespace {

// --- which kernel ---
//
// Times are in microseconds on an H200, fitted to the times of 599 tunings of 55 problems there, with n x k from 2560 x
// 2560 to 14336 x 4096 and 16 to 4096 tokens; the fastest tunings of a problem count most. A step is 128 columns.

struct WgmmaShapeInfo {
  int rows, width, tail;
  int group;                  // token blocks that are multiplied with the same rows
  double tile, step;          // of a tile, and of each of its steps
  double tail_us, tail_step;  // the same of the narrower tile
  double start;               // once, if every multiprocessor has a tile
};
// In the order of with_wgmma_shape().
constexpr WgmmaShapeInfo kWgmmaShapes[] = {
    // clang-format off
    {256, 128, 64, 4, 3.42, 0.5886, 2.67, 0.3996, 2.78},
    {256, 80, 80, 16, 2.84, 0.4434, 0, 0, 2.01},
    {128, 256, 128, 16, 3.56, 0.5956, 2.75, 0.3134, 2.69},
    {128, 128, 64, 16, 2.42, 0.3255, 1.94, 0.2695, 1.84},
    {128, 64, 32, 16, 0.27, 0.2750, 0.84, 0.2513, 3.53},
    // clang-format on
};
constexpr int kWgmmaShapeCount = sizeof(kWgmmaShapes) / sizeof(kWgmmaShapes[0]);

// The only shape for weights wider than trits: its stages fit, and compiling two more kernels is enough.
constexpr int kWideShape = 3;

template <class W, class F>
int with_wgmma_shape(int shape, F f) {
  if constexpr (W::kLoads > 1) {
    return f.template operator()<WgmmaShape<1, 128, 64, 2, W>>();
  } else {
    switch (shape) {
      case 0: return f.template operator()<WgmmaShape<2, 128, 64, 4>>();
      case 1: return f.template operator()<WgmmaShape<2, 80, 80>>();
      case 2: return f.template operator()<WgmmaShape<1, 256, 128>>();
      case 3: return f.template operator()<WgmmaShape<1, 128, 64>>();
      default: return f.template operator()<WgmmaShape<1, 64, 32>>();
    }
  }
}

// Tiles of 128 rows, for the kernel whose blocks share tiles.
struct SplitShapeInfo {
  int width;
  double step;
  double crowded_step, crowded;  // more per step and per tile, where blocks share multiprocessors
  double tile[4];                // of a tile that 1, 2, 4, 8 blocks share
};
// In the order of with_split_shape().
constexpr SplitShapeInfo kSplitShapes[] = {
    // clang-format off
    {16, 0.2446, 0.0747, 0.94, {1.65, 1.84, 1.85, 1.94}},
    {32, 0.2414, 0.1442, 0.81, {2.49, 2.20, 2.31, 2.39}},
    {48, 0.2753, 0.0982, 1.03, {3.88, 2.63, 2.83, 2.91}},
    {64, 0.3085, 0.1304, 1.26, {4.73, 3.17, 3.03, 3.19}},
    {96, 0.3682, 0.0823, 1.14, {7.12, 4.91, 4.40, 4.99}},
    {128, 0.2856, 0.0000, 4.67, {6.25, 4.79, 3.58, 3.78}},
    // clang-format on
};
constexpr int kSplitShapeCount = sizeof(kSplitShapes) / sizeof(kSplitShapes[0]);
constexpr int kWidestSplit = kSplitShapes[kSplitShapeCount - 1].width;

template <class W, class F>
int with_split_shape(int shape, F f) {
  switch (shape) {
    case 0: return f.template operator()<SplitShape<16, W>>();
    case 1: return f.template operator()<SplitShape<32, W>>();
    case 2: return f.template operator()<SplitShape<48, W>>();
    case 3: return f.template operator()<SplitShape<64, W>>();
    case 4:
      if constexpr (W::kLoads == 1) return f.template operator()<SplitShape<96, W>>();  // not chosen for wider weights
      [[fallthrough]];
    default: return f.template operator()<SplitShape<128, W>>();
  }
}

struct WgmmaTuning {
  int shape = 0;          // index into kWgmmaShapes, or kSplitShapes where tiles are shared
  int split = 0;          // blocks that share a tile: 1, 2, 4 or 8; 0: the other kernel, which uses the next two
  int group = 16;         // token blocks that are multiplied with the same rows
  int lead = 0;           // steps by which the second warpgroup follows the first; 0: it does not
  bool dependent = true;  // may start before the kernel before has ended
};

// --- the time of a tuning ---

// The tiles of matrices with n[] rows. Tiles that do not fill the last wave are cut into narrower ones where that is
// faster.
inline WgmmaTiles wgmma_tiles(const std::int64_t* n, std::size_t count, std::int64_t m, std::int64_t k,
                              const WgmmaTuning& tuning, int multiprocessors) {
  const WgmmaShapeInfo& shape = kWgmmaShapes[tuning.shape];
  WgmmaTiles tiles = {};
  tiles.matrices = static_cast<int>(count);
  tiles.rows = shape.rows;
  for (std::size_t i = 0; i < count; ++i) {
    tiles.first_block[i] = tiles.row_blocks;
    tiles.row_blocks += static_cast<int>(ceil_div(n[i], tiles.rows));
  }
  tiles.width = shape.width;
  tiles.tail = shape.tail;
  tiles.cuts = shape.width / shape.tail;
  tiles.token_blocks = static_cast<int>(ceil_div(m, shape.width));
  tiles.group = std::clamp(tuning.group, 1, tiles.token_blocks);
  // A problem that runs has fewer; one whose tuning is only reported may not.
  const auto all = static_cast<int>(
      std::min<std::int64_t>(std::int64_t{tiles.row_blocks} * tiles.token_blocks, std::numeric_limits<int>::max() / 8));
  const int left = all % multiprocessors;
  const auto steps = static_cast<double>(ceil_div(k, TileMma::kColumns));
  const auto waves = static_cast<double>(ceil_div(left * tiles.cuts, multiprocessors));
  const bool cut =
      tiles.cuts > 1 && waves * (shape.tail_us + steps * shape.tail_step) < shape.tile + steps * shape.step;
  tiles.whole = cut ? all - left : all;
  tiles.items = tiles.whole + (all - tiles.whole) * tiles.cuts;
  return tiles;
}

// The time of the kernel whose blocks work through tiles: its waves, and a start that takes longer the more blocks load
// at once.
inline double wgmma_us(const WgmmaTiles& tiles, const WgmmaTuning& tuning, std::int64_t k, int multiprocessors) {
  const WgmmaShapeInfo& shape = kWgmmaShapes[tuning.shape];
  const auto steps = static_cast<double>(ceil_div(k, TileMma::kColumns));
  const auto waves = static_cast<double>(ceil_div(tiles.whole, multiprocessors));
  const auto tail_waves = static_cast<double>(ceil_div(tiles.items - tiles.whole, multiprocessors));
  const double blocks = static_cast<double>(std::min(tiles.items, multiprocessors)) / multiprocessors;
  return 0.52 + blocks * shape.start + waves * (shape.tile + steps * shape.step) +
         tail_waves * (shape.tail_us + steps * shape.tail_step);
}

// The time of the kernel whose blocks share tiles.
inline double split_us(const SplitShapeInfo& shape, int log_split, std::int64_t row_blocks, std::int64_t m,
                       std::int64_t k, int multiprocessors) {
  const int split = 1 << log_split;
  const auto steps = static_cast<double>(ceil_div(ceil_div(k, TileMma::kColumns), split));
  // Clusters that run at once. Large clusters leave some multiprocessors unused, since each cluster is within a part of
  // the device.
  const std::int64_t blocks = (shape.width <= 96 ? 2 : 1) * multiprocessors;
  const std::int64_t slots = std::max<std::int64_t>(1, (split > 2 ? blocks * 15 / 16 : blocks) / split);
  const auto wave = [&](std::int64_t tiles) {
    const double each = static_cast<double>(tiles * split) / multiprocessors;  // blocks of a multiprocessor, up to 2
    // Even a few single blocks soon share a multiprocessor; clusters share one only when there is no other place.
    const double crowd = split == 1 ? each / (each + 0.55) : each / 2 * std::sqrt(each / 2);
    return shape.tile[log_split] + crowd * shape.crowded + steps * (shape.step + crowd * shape.crowded_step);
  };
  const std::int64_t tiles = row_blocks * ceil_div(m, shape.width), waves = tiles / slots, left = tiles % slots;
  return 0.38 + static_cast<double>(row_blocks * kSplitRows * k) * 21.4e-9 + static_cast<double>(waves) * wave(slots) +
         (left > 0 ? wave(left) : 0);
}

// The tuning with the least estimated time.
inline WgmmaTuning wgmma_tuning(const std::int64_t* n, std::size_t count, std::int64_t m, std::int64_t k,
                                int multiprocessors) {
  constexpr std::int64_t kFew = 1024;  // tokens; with more, tiles are never shared
  constexpr int kLead = 3;
  WgmmaTuning best;
  double least = 0;
  for (int shape = 0; shape < kWgmmaShapeCount; ++shape) {
    WgmmaTuning tuning;
    tuning.shape = shape;
    tuning.group = kWgmmaShapes[shape].group;
    const WgmmaTiles tiles = wgmma_tiles(n, count, m, k, tuning, multiprocessors);
    if (tiles.items > 2 * multiprocessors) tuning.lead = kLead;  // with fewer tiles it is only a delay
    const double us = wgmma_us(tiles, tuning, k, multiprocessors);
    if (shape == 0 || us < least) {
      least = us;
      best = tuning;
    }
  }
  std::int64_t row_blocks = 0;
  for (std::size_t i = 0; i < count; ++i) row_blocks += ceil_div(n[i], kSplitRows);
  for (int shape = 0; shape < kSplitShapeCount && m <= kFew; ++shape)
    for (int log = 0; 1 << log <= kMostSplit && 1 << log <= ceil_div(k, TileMma::kColumns); ++log) {
      const double us = split_us(kSplitShapes[shape], log, row_blocks, m, k, multiprocessors);
      if (us >= least) continue;
      least = us;
      best = {.shape = shape, .split = 1 << log};
    }
  return best;
}
inline WgmmaTuning wgmma_tuning(const Params& p, int multiprocessors) {
  std::int64_t n[Linear::kMaxMatrices];
  for (std::size_t i = 0; i < p.count; ++i) n[i] = p.matrices[i].spec.n;
  return wgmma_tuning(n, p.count, p.m, p.k, multiprocessors);
}

// The tuning as a plan reports it.
inline Tuning reported_wgmma(const WgmmaTuning& tuning) {
  const bool split = tuning.split > 0;
  return {.threads = split ? kSplitThreads : kWgmmaThreads,
          .grid = split ? GridStrategy::fixed : GridStrategy::occupancy,  // blocks stay, each for several tiles
          .split = std::max(tuning.split, 1),
          .dependent_launch = tuning.dependent};
}

}  // namespace
}  // namespace tern::linear
