// linear for a few tokens on sm_90: how a problem is cut into blocks, and the launches. For .cu files only.
#pragma once

#include <algorithm>

#include "ops/linear/cuda_stream_block.h"
#include "ops/linear/cuda_tokens_launch.h"

namespace tern::linear {
namespace {

constexpr std::int64_t kStreamTokens = 8;

struct StreamTuning {
  int warps = 0;          // of a block; 0: by the size of the problem
  bool one_row = false;   // a block for every row tile instead of every multiprocessor
  bool dependent = true;  // programmatic dependent launch
};

constexpr int kSumsBytes = 32 * 1024;     // of a block, at most
constexpr std::int64_t kManyLoads = 120;  // of a block: with more, 16 warps are faster than 12

// Clocks from the start of a block until the kernel before has its tokens, if they have as many bytes as this kernel's.
// Measured; longer where a block requests more weights from one matrix. A ring that is refilled keeps memory busy all
// the time, so the pause matters less there.
constexpr std::int64_t stream_pause(std::int64_t token_bytes, std::int64_t weight_bytes, bool all_at_once) {
  if (!all_at_once) return 1000;
  const bool many = weight_bytes > 60 * 1024;
  return std::clamp<std::int64_t>(many ? 750 + token_bytes / 8 : token_bytes / 4 - 100, 400, 3000);
}

struct StreamCut {
  StreamJob stream;
  std::int64_t blocks, shared_bytes;
  int warps;
};

// Cuts stream.job. limit: the most shared memory of a block. Returns false where the tokens do not fit.
inline bool stream_cut(StreamCut& cut, const StreamTuning& tuning, std::int64_t limit, int multiprocessors) {
  StreamJob& stream = cut.stream;
  const Job& job = stream.job;
  const std::int64_t columns = job.column_tiles, m = job.m;
  if (m > kStreamTokens) return false;
  const std::int64_t rows_limit = kSumsBytes / 4 / m / TileMma::kRows - 1;
  cut.blocks = tuning.one_row ? job.row_tiles : std::min(job.row_tiles, multiprocessors);
  cut.blocks = std::max(cut.blocks, ceil_div(job.row_tiles, rows_limit));
  const std::int64_t row_tiles = ceil_div(job.row_tiles, cut.blocks);
  const std::int64_t tile_bytes = TileMma::of(0, 0, job.matrices[0].bits).tile_bytes(), tile_loads = tile_bytes / 512;
  const bool many = row_tiles * columns * tile_loads > kManyLoads;
  cut.warps = tuning.warps > 0 ? tuning.warps : many ? kStreamWarps : 12;

  // Pitches that put rows and tokens in different banks.
  stream.token_pitch = static_cast<std::int32_t>(columns * TileMma::kColumns + kChunk);
  stream.sums_pitch = static_cast<std::int32_t>(row_tiles * TileMma::kRows + 4);
  const auto up = [](std::int64_t bytes) { return static_cast<std::int32_t>(ceil_div(bytes, 128) * 128); };
  const std::int64_t others =
      std::int64_t{up(4 * m * stream.sums_pitch)} + up(m * stream.token_pitch) + tile_bytes + 6 * 128;
  // A warp holds all of its weights if they fit into half of the shared memory (the other half is for the next kernel),
  // else a ring of three slots. Weights wider than trits may leave the next kernel no room; where even that is too
  // little, fewer warps share the ring's memory.
  std::int64_t budget = (limit + 1024) / 2 - 1024, share = 0, room = 0;
  for (;;) {
    share = ceil_div(row_tiles * columns, cut.warps);
    room = (budget - others) / (tile_bytes + 8) / cut.warps;
    if (room >= std::min<std::int64_t>(share, 3)) break;
    if (tile_loads == 1 || (budget == limit && cut.warps < 8)) return false;
    if (budget == limit) cut.warps /= 2;
    budget = limit;
  }
  stream.first_tiles = job.matrices[0].tiles;
  stream.first_end = job.count > 1 ? job.matrices[1].first_tile : job.row_tiles;
  stream.block_rows = static_cast<std::int32_t>(job.row_tiles / cut.blocks);
  stream.longer_blocks = static_cast<std::int32_t>(job.row_tiles % cut.blocks);
  stream.column_tiles = job.column_tiles;
  const auto* end = reinterpret_cast<const std::byte*>(job.matrices + job.count);
  stream.used_bytes = static_cast<std::int32_t>(end - reinterpret_cast<const std::byte*>(&stream));
  stream.row_inverse = static_cast<std::uint32_t>(((std::int64_t{1} << 32) + columns - 1) / columns);
  for (int longer = 0; longer < 2; ++longer) {
    const std::int64_t tiles = (stream.block_rows + longer) * columns;
    stream.share[longer] = static_cast<std::int32_t>(tiles / cut.warps);
    stream.longer_shares[longer] = static_cast<std::int32_t>(tiles % cut.warps);
  }

  const std::int64_t slot_tiles = share <= room ? share : room / 3;
  const std::int64_t slots = std::min(room / slot_tiles, ceil_div(share, slot_tiles));
  stream.slots = static_cast<std::int32_t>(slots);
  stream.slot_tiles = static_cast<std::int32_t>(slot_tiles);
  if (tuning.dependent)
    stream.pause = static_cast<std::int32_t>(stream_pause(
        m * columns * TileMma::kColumns, job.count == 1 ? row_tiles * columns * tile_bytes : 0, slots == 1));
  stream.token_barrier_at = static_cast<std::int32_t>(8 * slots * cut.warps);
  stream.maxima_at = stream.token_barrier_at + 8;
  stream.terms_at = stream.maxima_at + 4 * kStreamWarps;
  stream.sums_at = up(stream.terms_at + 8 * kStreamTokens);
  stream.tokens_at = up(stream.sums_at + 4 * m * stream.sums_pitch);
  stream.ring_at = up(stream.tokens_at + m * stream.token_pitch);
  cut.shared_bytes = stream.ring_at + (slots * cut.warps * slot_tiles + 1) * tile_bytes;
  if (cut.shared_bytes > limit) return false;
  // Rounds up so that three blocks do not fit on a multiprocessor: this kernel's and the next one's are enough, and the
  // requests of a third would come too early.
  cut.shared_bytes = std::max<std::int64_t>(cut.shared_bytes, up((limit + 1024) / 3 - 1024 + 1));
  return true;
}

inline StreamTuning stream_tuning(const cuda::Launch& launch) {
  StreamTuning tuning;
  tuning.dependent = starts_early(launch);
  if (launch.tuning == nullptr) return tuning;
  const Tuning& asked = *launch.tuning;
  if (asked.threads > 0) tuning.warps = std::clamp(asked.threads / kWarp, 1, kStreamWarps);
  tuning.one_row = asked.grid == GridStrategy::fixed;
  return tuning;
}

// Reports how a problem would be cut, without launching it; returns false where another kernel must run.
inline bool report_stream(const Params& p, const cuda::Launch& launch, Tuning& tuning) {
  const StreamTuning few = stream_tuning(launch);
  StreamCut cut = {};
  cut.stream.job = job_of(p);
  if (!stream_cut(cut, few, shared_limit(launch), launch.multiprocessors)) return false;
  tuning = {.threads = kWarp * cut.warps,
            .grid = few.one_row ? GridStrategy::fixed : GridStrategy::occupancy,
            .split = cut.warps,
            .dependent_launch = few.dependent};
  return true;
}

template <class W, class X, int kTokens>
int launch_stream(const StreamCut& cut, const StreamTuning& tuning, const cuda::Launch& launch) {
  const auto kernel = stream_linear<W, X, kTokens>;
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_limit(launch));
  if (error == cudaSuccess)  // the same for all kernels, so that they can overlap
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100);
  if (error != cudaSuccess) return error;
  return cuda::start(kernel,
                     {.blocks = dim3(static_cast<unsigned>(cut.blocks)),
                      .threads = dim3(static_cast<unsigned>(kWarp * cut.warps)),
                      .shared_bytes = cut.shared_bytes,
                      .dependent = tuning.dependent},
                     launch, cut.stream);
}

// k up to W::kMaxK; m, n of each matrix and k at least 1; cut: what stream_cut() made.
template <class W>
int stream_launch(StreamCut& cut, const Params& params, std::byte* workspace, const cuda::Launch& launch,
                  const StreamTuning& tuning) {
  StreamJob& stream = cut.stream;
  stream.tokens = tokens_of(params, launch);
  const auto run_codes = [&] {
    stream.bulk = stream.tokens.aligned && stream.tokens.k % kChunk == 0;
    return params.m > 1 ? launch_stream<W, Codes, kStreamTokens>(cut, tuning, launch)
                        : launch_stream<W, Codes, 1>(cut, tuning, launch);
  };
  if (params.x_dtype == DType::i8) return run_codes();
  return cuda::with_element(params.x_dtype, [&]<class E>() -> int {
    if constexpr (std::is_same_v<E, cuda::F64>) {
      return cudaErrorInvalidValue;
    } else {
      // With one token, every block quantizes it for itself. With wider weights that takes longer than a separate
      // kernel.
      if constexpr (W::kLoads == 1)
        if (params.m == 1) return launch_stream<W, E, 1>(cut, tuning, launch);
      const int failed = quantize_first<E>(stream.tokens, params, workspace, tuning.dependent, launch);
      return failed != 0 ? failed : run_codes();
    }
  });
}

}  // namespace
}  // namespace tern::linear
