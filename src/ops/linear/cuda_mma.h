// linear by mma.sync: how a problem is cut into blocks, and the launches. Exact w2a8 for one to some dozens of tokens;
// more go in blocks of 64. For .cu files only.
#pragma once

#include <algorithm>

#include "ops/linear/cuda_mma_block.h"
#include "ops/linear/cuda_tokens_launch.h"

namespace tern::linear {
namespace {

// How a launch is cut. row_tiles and depth choose an instance of the kernel, the rest is data.
struct MmaTuning {
  int row_tiles = 1;      // of a warp
  int depth = 4;          // column tiles of a warp that are in flight
  int row_warps = 1;      // of a block
  int split = 8;          // warps that share the columns of a row tile
  int blocks_per_sm = 0;  // at most; 0: a block for every group of rows
};

inline int mma_token_tiles(std::int64_t m) { return m <= 8 ? 1 : m <= 16 ? 2 : m <= 32 ? 4 : 8; }

// How to cut a problem. Up to 8 tokens: every weight is in flight at once where registers allow it, over as many warps
// as make the shortest chains; else blocks stay and take several groups of rows. More tokens: fewer blocks with more
// rows, because each reads all tokens. tile_loads: 16-byte loads of a lane for a column tile.
inline MmaTuning mma_tuning(std::int64_t row_tiles, std::int64_t column_tiles, int tile_loads, std::int64_t m,
                            int multiprocessors) {
  const int token_tiles = mma_token_tiles(m);
  const auto evened = [&](std::int64_t split) {
    const std::int64_t columns = std::max<std::int64_t>(column_tiles, 1);
    return static_cast<int>(ceil_div(columns, ceil_div(columns, std::clamp<std::int64_t>(split, 1, columns))));
  };
  MmaTuning tuning;
  if (token_tiles == 1) {
    constexpr std::int64_t kWarps = 20;  // that a multiprocessor holds at depth 8
    const std::int64_t loads = row_tiles * column_tiles * tile_loads / multiprocessors;
    const std::int64_t steps = std::clamp<std::int64_t>(loads / 14, 2, 8);
    tuning.depth = tile_loads == 1 && steps <= 4 ? 4 : 8 / tile_loads;
    const int most = mma_max_warps(1, tuning.depth * tile_loads);
    const bool stays = row_tiles > 8 * std::int64_t{multiprocessors};
    const std::int64_t resident =
        std::max<std::int64_t>(kWarps * multiprocessors / std::max<std::int64_t>(row_tiles, 1), 1);
    tuning.split =
        evened(std::min<std::int64_t>({ceil_div(column_tiles * tile_loads, steps), most, stays ? most : resident}));
    const std::int64_t rows = ceil_div(row_tiles, multiprocessors);
    tuning.row_warps = static_cast<int>(std::clamp<std::int64_t>((m == 1 ? 4 : most) / tuning.split, 1, rows));
    if (stays)
      tuning.blocks_per_sm = static_cast<int>(std::max<std::int64_t>(kWarps / (tuning.split * tuning.row_warps), 1));
    return tuning;
  }
  tuning.row_tiles = 2;
  tuning.depth = std::max((token_tiles == 2 ? 4 : 2) / tile_loads, 1);
  tuning.row_warps =
      static_cast<int>(std::clamp<std::int64_t>(ceil_div(row_tiles, std::int64_t{2} * multiprocessors), 1, 4));
  tuning.split = evened(mma_max_warps(token_tiles, 2 * tuning.depth * tile_loads) / tuning.row_warps);
  tuning.blocks_per_sm = 1;
  return tuning;
}

// The same for a problem, with what the caller asked for.
inline MmaTuning mma_tuning(const Params& p, const cuda::Launch& launch) {
  std::int64_t row_tiles = 0;
  for (std::size_t i = 0; i < p.count; ++i) row_tiles += ceil_div(p.matrices[i].spec.n, TileMma::kRows);
  const int tile_loads = mma_bits(p.format) / 2;
  MmaTuning tuning = mma_tuning(row_tiles, ceil_div(p.k, TileMma::kColumns), tile_loads, p.m, launch.multiprocessors);
  if (launch.tuning == nullptr) return tuning;
  const Tuning& asked = *launch.tuning;
  const int most = mma_max_warps(mma_token_tiles(p.m), tuning.row_tiles * tuning.depth * tile_loads);
  if (asked.split > 0) tuning.split = std::min(asked.split, most);
  if (asked.threads > 0) tuning.row_warps = asked.threads / kWarp / tuning.split;
  tuning.row_warps = std::clamp(tuning.row_warps, 1, most / tuning.split);
  if (asked.grid == GridStrategy::fixed) tuning.blocks_per_sm = 0;
  if (asked.grid == GridStrategy::occupancy) tuning.blocks_per_sm = std::max(tuning.blocks_per_sm, 1);
  return tuning;
}

// Fills in how mma is cut and returns the bytes of shared memory of a block. limit: the most that a block may have.
// Tokens that do not fit pass through two buffers; then fewer warps share the columns until the buffers fit. A result
// above limit says that they never do.
inline std::int64_t cut(MmaJob& mma, const MmaTuning& tuning, int token_tiles, std::int64_t limit) {
  const Job& job = mma.job;
  mma.tokens_of_pass = std::min(job.m, 8);
  mma.row_warps =
      std::min<std::int32_t>(tuning.row_warps, static_cast<std::int32_t>(ceil_div(job.row_tiles, tuning.row_tiles)));
  mma.split = std::max(std::min(tuning.split, job.column_tiles), 1);
  const std::int64_t column_bytes = TileMma::kColumns * (token_tiles == 1 ? mma.tokens_of_pass : 8 * token_tiles);
  std::int64_t budget = tuning.blocks_per_sm <= 1 ? limit : (limit + 1024) / tuning.blocks_per_sm - 1024;
  const auto fixed = [&] {
    const std::int64_t words =
        std::int64_t{2} * mma.row_warps * mma.split * mma.tokens_of_pass * mma_pitch(tuning.row_tiles);
    return kPartialsAt + ceil_div(words * 4, 128) * 128;
  };
  const auto batches = [&] { return ceil_div(ceil_div(job.column_tiles, mma.split), tuning.depth); };
  const auto unit = [&] { return tuning.depth * mma.split * column_bytes; };  // bytes of a batch's tokens
  std::int64_t bytes = fixed() + job.column_tiles * column_bytes;
  if (bytes <= budget) {
    mma.chunk_batches = static_cast<std::int32_t>(batches());
    mma.chunk_columns = job.column_tiles;
  } else {
    while (fixed() + 2 * unit() > budget) {
      if (budget < limit)
        budget = limit;
      else if (mma.split > 1)
        mma.split /= 2;
      else if (mma.row_warps > 1)
        mma.row_warps /= 2;
      else
        return limit + 1;
    }
    mma.chunk_batches = static_cast<std::int32_t>(std::min((budget - fixed()) / 2 / unit(), batches()));
    mma.chunk_columns = mma.chunk_batches * tuning.depth * mma.split;
    bytes = fixed() + 2 * mma.chunk_batches * unit();
  }
  mma.batches = static_cast<std::int32_t>(batches());
  mma.chunk_bytes = static_cast<std::int32_t>(mma.chunk_columns * column_bytes);
  mma.tokens_at = static_cast<std::int32_t>(fixed());
  mma.groups = static_cast<std::int32_t>(ceil_div(job.row_tiles, mma.row_warps * tuning.row_tiles));
  return bytes;
}

struct MmaGrid {
  std::int64_t blocks;  // along x
  std::int64_t shared_bytes;
  int shared_limit;  // of any block
};

template <class W, class Isa, class X, int kTokenTiles, int kRowTiles, int kDepth>
int launch_instance(const MmaJob& mma, const cuda::Launch& launch, const MmaGrid& grid) {
  constexpr int kCarveout = 50;  // per cent of L1 that is shared memory
  const auto kernel = mma_linear<W, Isa, X, kTokenTiles, kRowTiles, kDepth>;
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, kCarveout);
  if (error == cudaSuccess && grid.shared_bytes > 48 * 1024)  // always the limit, because other threads launch it, too
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, grid.shared_limit);
  if (error != cudaSuccess) return error;
  constexpr std::int64_t kMaxY = 65535, kTokens = 8 * kTokenTiles;
  MmaJob part = mma;
  for (; part.first_token < mma.job.m; part.first_token += kMaxY * kTokens) {
    const std::int64_t blocks_y = std::min(ceil_div(mma.job.m - part.first_token, kTokens), kMaxY);
    const int failed =
        cuda::start(kernel,
                    {.blocks = dim3(static_cast<unsigned>(grid.blocks), static_cast<unsigned>(blocks_y)),
                     .threads = dim3(kWarp, static_cast<unsigned>(mma.split), static_cast<unsigned>(mma.row_warps)),
                     .shared_bytes = grid.shared_bytes},
                    launch, part);
    if (failed != 0) return failed;
  }
  return cudaSuccess;
}

// All instances, by token tiles, row tiles of a warp, and depth.
template <class W, class Isa, class X>
int launch_cut(const MmaJob& mma, const MmaTuning& tuning, const cuda::Launch& launch, const MmaGrid& grid) {
  const auto is = [&](int token_tiles, int row_tiles, int depth) {
    return mma_token_tiles(mma.job.m) == token_tiles && tuning.row_tiles == row_tiles && tuning.depth == depth;
  };
  constexpr int kLoads = W::kLoads, kFour = kLoads < 4 ? 4 / kLoads : 1, kTwo = kLoads < 2 ? 2 : 1;
  if constexpr (kLoads == 1)
    if (is(1, 1, 4)) return launch_instance<W, Isa, X, 1, 1, 4>(mma, launch, grid);
  if (is(1, 1, 8 / kLoads)) return launch_instance<W, Isa, X, 1, 1, 8 / kLoads>(mma, launch, grid);
  if constexpr (std::is_same_v<X, Codes>) {
    if (is(2, 2, kFour)) return launch_instance<W, Isa, X, 2, 2, kFour>(mma, launch, grid);
    if (is(4, 2, kTwo)) return launch_instance<W, Isa, X, 4, 2, kTwo>(mma, launch, grid);
    if (is(8, 2, kTwo)) return launch_instance<W, Isa, X, 8, 2, kTwo>(mma, launch, grid);
  }
  return cudaErrorInvalidValue;
}

// k up to W::kMaxK; m, n of each matrix and k at least 1.
template <class W, class Isa>
int mma_launch(const Params& params, std::byte* workspace, const cuda::Launch& launch, const MmaTuning& tuning) {
  MmaJob mma = {};
  mma.job = job_of(params);
  mma.tokens = tokens_of(params, launch);
  const int token_tiles = mma_token_tiles(params.m);
  if (tuning.row_warps < 1 || tuning.split < 1 ||
      tuning.row_warps * tuning.split > mma_max_warps(token_tiles, tuning.row_tiles * tuning.depth * W::kLoads))
    return cudaErrorInvalidValue;
  MmaGrid grid = {};
  grid.shared_limit = shared_limit(launch);
  grid.shared_bytes = cut(mma, tuning, token_tiles, grid.shared_limit);
  if (grid.shared_bytes > grid.shared_limit) return cudaErrorInvalidConfiguration;
  grid.blocks = mma.groups;
  if (tuning.blocks_per_sm > 0) {  // 1024: shared memory that the system takes per block
    const std::int64_t fit = (grid.shared_limit + 1024) / (grid.shared_bytes + 1024);
    grid.blocks = std::min(grid.blocks, std::min<std::int64_t>(tuning.blocks_per_sm, fit) * launch.multiprocessors);
  }
  const auto run = [&]<class X>() { return launch_cut<W, Isa, X>(mma, tuning, launch, grid); };
  if (params.x_dtype == DType::i8) return run.template operator()<Codes>();

  // With one token, every block quantizes it for itself. With wider weights that takes longer than a separate kernel,
  // so they have no kernels that quantize.
  const bool fused = W::kLoads == 1 && params.m == 1 && tuning.row_tiles == 1 && mma.chunk_batches >= mma.batches;
  return cuda::with_element(params.x_dtype, [&]<class E>() -> int {
    if constexpr (std::is_same_v<E, cuda::F64>) {
      return cudaErrorInvalidValue;
    } else {
      if constexpr (W::kLoads == 1)
        if (fused) return run.template operator()<E>();
      const int failed = quantize_first<E>(mma.tokens, params, workspace, false, launch);
      if (failed != 0) return failed;
      return run.template operator()<Codes>();
    }
  });
}

}  // namespace
}  // namespace tern::linear
