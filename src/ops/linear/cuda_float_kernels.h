// The float modes of linear on tensor cores: bf16, f16 and f32 tokens, and int8 tokens with group scales. Two kernels,
// for few tokens and for many; cuda_float.h launches them. For .cu files only.
//
// Order of sums. It depends only on k, the group size and the kernel's generation of GPUs:
//     flush   columns of one chain of matrix instructions, which starts at 0; the result, times the group's scale, is
//             added to the unit's sum
//     unit    consecutive column tiles: four, or a sixteenth of all if that is more
//     sum     units, added in order
// With few tokens each warp computes one unit; with many, one warp computes all of them.
//
// Why the error stays within 1e-5 of sum(abs(x) * abs(w)), which is 167 u with u = 2^-24: tensor cores truncate
// products to the place of the largest addend, and the sum to f32 (Fasi, Higham, Mikaitis and Pranesh 2021; Khattak and
// Mikaitis 2025). These numbers of products and bits are assumed:
//     generation    products of a sum    bits behind f32's last    lost by a sum    flush    lost by it
//     9.0                  16                      2               16 * u/2 + 2 u    128        80 u
//     8.x                   8                      1                8 * u   + 2 u     64        80 u
//     7.5                   4                      0                4 * 2 u + 2 u     32        80 u
// A flush loses 80 u of its own part of the whole, so all flushes together lose 80 u of the whole. Each addition to a
// unit and of a unit loses u, the epilogue 4 u; lost_units() of cuda_serves.h counts them. Products are exact. f32
// tokens come as three bf16 that together are exact, the smallest first, each with flushes of its own: the small ones
// lose next to nothing.
#pragma once

#include "ops/linear/cuda_float_math.h"
#include "ops/linear/cuda_plain.h"

namespace tern::linear {
namespace {

constexpr int kFewThreads = kMaxUnits * kWarp;

// The parameters of the kernels.
struct FloatJob {
  Job job;
  // Tokens as tensor cores read them, each on a boundary of 16 bytes. f32 has three parts, the smallest first.
  const std::byte* x;
  std::int64_t x_stride;   // bytes
  std::int64_t x_part;     // bytes from one part to the next
  std::int32_t x_columns;  // that may be read: whole 16 bytes; floats beyond k are 0
  std::int32_t unit;       // column tiles
  std::int32_t units;
  std::int32_t blocks_abreast;  // blocks along the index that runs fastest
  std::int32_t last_group;
  std::uint32_t group_share;  // 2^31 / (steps of 32 columns in a group), rounded up
  std::int64_t group;         // columns; 0: none
  PlainTokens tokens;         // for sums that are recomputed
  const float* s;             // scales of int8 tokens
  const int* tiny;            // whether an f32 token has elements too small for three bf16
};

// --- weights ---

template <class W, class F, int kRowTiles>
struct Rows {
  const uint4* tiles[kRowTiles];  // null: beyond the last row
  const float* scales[kRowTiles];
  std::uint32_t group_share = 0;
  int last_group = 0;

  __device__ Rows(const FloatJob& f, int first_tile, int lane) {
    group_share = f.group_share;
    last_group = f.last_group;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      const int tile = first_tile + r;
      const bool there = tile < f.job.row_tiles;
      const MatrixJob& matrix = f.job.matrix_of(there ? tile : 0);
      const int own_tile = tile - matrix.first_tile;
      const std::int64_t before = std::int64_t{own_tile} * f.job.column_tiles;
      tiles[r] = there ? matrix.tiles + before * LaneTile<W>::kStride + lane : nullptr;
      if constexpr (F::kGroups) {
        scales[r] = matrix.scales + std::int64_t{own_tile} * (f.last_group + 1) * kTileRows + lane / 4;
      }
    }
  }

  // The group of a step. Exact, because steps and steps per group are below 2^13.
  [[nodiscard]] __device__ int group_of_step(int step) const {
    return min(static_cast<int>(static_cast<std::uint64_t>(step) * group_share >> 31), last_group);
  }
  // Loads a column tile, or zeros from `last` on.
  [[nodiscard]] __device__ Weights<W, F, kRowTiles> load(int tile, int last) const {
    Weights<W, F, kRowTiles> weights = {};
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      if (tiles[r] == nullptr || tile >= last) continue;
#pragma unroll
      for (int v = 0; v < W::kLoads; ++v)
        weights.tiles[r].loads[v] =
            load_once(tiles[r] + static_cast<std::int64_t>(tile) * LaneTile<W>::kStride + v * kWarp);
      if constexpr (F::kGroups) {
#pragma unroll
        for (int flush = 0; flush < F::kFlushes; ++flush) {
          const int step = tile * (kTileColumns / kStepColumns) + flush * (F::kFlush / kStepColumns);
          const float* of = scales[r] + group_of_step(step) * kTileRows;
          weights.scales[flush][r][0] = __ldg(of);
          weights.scales[flush][r][1] = __ldg(of + 8);
        }
      }
    }
    return weights;
  }
};

// --- results ---

__device__ __noinline__ float sum_again(const FloatJob& f, const MatrixJob& matrix, int token, int n) {
  return static_cast<float>(plain_sum(matrix, f.group, f.tokens, token, n, 0, 1));
}

// Finishes and stores the results of a row.
template <class Math, class F>
struct Results {
  const FloatJob& f;
  const MatrixJob* matrix = nullptr;  // null: there is no such row
  int n = 0;
  RowTerms terms;

  __device__ Results(const FloatJob& job, int first_tile, int row) : f(job) {
    const int tile = first_tile + row / kTileRows;
    if (tile >= f.job.row_tiles) return;
    const MatrixJob& of = f.job.matrix_of(tile);
    n = (tile - of.first_tile) * kTileRows + row % kTileRows;
    if (n >= of.n) return;
    matrix = &of;
    terms = terms_of(of, F::kGroups, n);
  }

  // Recomputes the sum where f32 was not enough. A sum that is not finite overflowed, or x is not finite: every row
  // shows it, since 0 times NaN or infinity is NaN. The bits that f32 tokens lost of tiny elements matter only where
  // the sum is tiny, or where group scales, which are part of the sum, may have made it large.
  __device__ void store(int token, float sum) const {
    if (matrix == nullptr || token >= f.job.m) return;
    // Adding 0 turns -0 into +0, as padding tiles behind the last tile would.
    float t = __fadd_rn(__fmul_rn(sum, Math::kUnit), 0.0F);
    if (!cuda::finite(t) || (f.tiny != nullptr && (F::kGroups || fabsf(t) < 0x1p-90F) && f.tiny[token] != 0))
      t = sum_again(f, *matrix, token, n);
    if (f.s != nullptr) {
      if (n == 0) check_scale(f.tokens.report, f.s[token], f.tokens.first + token);
      t = __fdiv_rn(t, f.s[token]);
    }
    store_y(*matrix, token, n, activated(*matrix, terms, t));
  }
};

// --- few tokens: a block computes all units of some rows, each warp one unit ---

template <int kRowTiles_, int kTokenTiles_, int kAtOnce_>
struct Few {
  static constexpr int kRowTiles = kRowTiles_, kTokenTiles = kTokenTiles_;
  static constexpr int kAtOnce = kAtOnce_;  // column tiles that are loaded at a time
  static constexpr int kRows = kRowTiles * kTileRows, kTokens = kTokenTiles * kTileTokens;
  static constexpr int kPitch = kRows + 4;  // floats; lanes 4g + t write to banks 8t + g
  static constexpr std::size_t shared_bytes(int units) { return sizeof(float) * units * kTokens * kPitch; }
};

template <class Math, int kParts, class F, class Shape>
__global__ void __launch_bounds__(kFewThreads, 1) multiply_few(const __grid_constant__ FloatJob f) {
  static_assert(kParts == 1 || Shape::kAtOnce == 1, "the parts of a tile come one after the other");
  using Quad = typename Math::Quad;
  constexpr int kRowTiles = Shape::kRowTiles, kTokenTiles = Shape::kTokenTiles, kAtOnce = Shape::kAtOnce;
  extern __shared__ __align__(16) std::byte shared[];
  let_next_start();
  const int lane = threadIdx.x % kWarp, unit = threadIdx.x / kWarp, g = lane / 4, t = lane % 4;
  const int first_row_tile = static_cast<int>(blockIdx.x / f.blocks_abreast) * kRowTiles;
  const int first_token = static_cast<int>(blockIdx.x % f.blocks_abreast) * Shape::kTokens;
  const int first = unit * f.unit, last = min(first + f.unit, f.job.column_tiles);

  using W = typename Math::W;
  const Rows<W, F, kRowTiles> rows(f, first_row_tile, lane);
  Weights<W, F, kRowTiles> weights[kAtOnce];
#pragma unroll
  for (int d = 0; d < kAtOnce; ++d) weights[d] = rows.load(first + d, last);
  wait_for_previous();
  const Results<Math, F> results(f, first_row_tile, threadIdx.x % Shape::kRows);  // early: scales load slowly

  const std::byte* x[kTokenTiles];
  int columns[kTokenTiles];  // of each token that may be read
#pragma unroll
  for (int j = 0; j < kTokenTiles; ++j) {
    const int token = first_token + j * kTileTokens + g;
    x[j] = f.x + token * f.x_stride;
    columns[j] = token < f.job.m ? min(f.x_columns, last * kTileColumns) : 0;
  }
  float sums[kRowTiles][kTokenTiles][4] = {};
  constexpr int kPartsAtOnce = kTokenTiles == 1 ? kParts : 1;  // more would not fit into registers
  for (int tile = first; tile < last; tile += kAtOnce) {
#pragma unroll kPartsAtOnce
    for (int part = 0; part < kParts; ++part) {
      Quad quads[kAtOnce][8][kTokenTiles];
#pragma unroll
      for (int d = 0; d < kAtOnce; ++d)
#pragma unroll
        for (int q = 0; q < 8; ++q)
#pragma unroll
          for (int j = 0; j < kTokenTiles; ++j) {
            const int column = (tile + d) * kTileColumns + 16 * q + 4 * t;
            quads[d][q][j] = {};
            if (column < columns[j])
              quads[d][q][j] =
                  *reinterpret_cast<const Quad*>(x[j] + part * f.x_part + std::int64_t{column} * Math::kElementBytes);
          }
      __syncwarp();  // issue all loads before waiting for the first
#pragma unroll
      for (int d = 0; d < kAtOnce; ++d)
        add_tile<Math, F>(sums, weights[d], [&](int step, int half, int j) { return quads[d][2 * step + half][j]; });
    }
#pragma unroll
    for (int d = 0; d < kAtOnce; ++d) weights[d] = rows.load(tile + kAtOnce + d, last);
  }

  auto* all = reinterpret_cast<float*>(shared);  // [unit][token][row]
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
    for (int j = 0; j < kTokenTiles; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = j * kTileTokens + 2 * t + i % 2, row = r * kTileRows + g + 8 * (i / 2);
        all[(unit * Shape::kTokens + token) * Shape::kPitch + row] = sums[r][j][i];
      }
  __syncthreads();
  for (int i = threadIdx.x; i < Shape::kRows * Shape::kTokens; i += blockDim.x) {
    const int token = i / Shape::kRows;
    const float* of = all + token * Shape::kPitch + i % Shape::kRows;
    float sum = *of;
    for (int u = 1; u < f.units; ++u) sum = __fadd_rn(sum, of[u * Shape::kTokens * Shape::kPitch]);
    results.store(first_token + token, sum);
  }
}

// --- many tokens: a block computes rows by tokens; a stage is one column tile (of one part) of its tokens ---

template <int kRowTiles_, int kTokenTiles_, int kRowWarps_, int kTokenWarps_, int kStages_, int kBlocks_>
struct Many {
  static constexpr int kRowTiles = kRowTiles_, kTokenTiles = kTokenTiles_;  // of a warp
  static constexpr int kRowWarps = kRowWarps_, kTokenWarps = kTokenWarps_;
  static constexpr int kStages = kStages_, kBlocks = kBlocks_;
  static constexpr int kThreads = kRowWarps * kTokenWarps * kWarp;
  static constexpr int kRows = kRowTiles * kRowWarps * kTileRows, kTokens = kTokenTiles * kTokenWarps * kTileTokens;
  static constexpr int kPitch = kRows + 4;  // floats of a token's sums; lanes 4g + t have banks 8t + g
  // Bytes of a token in a stage: a tile and an eighth, so that the quads of eight tokens are in different banks.
  template <class Math>
  static constexpr int kTokenBytes = (kTileColumns + 16) * Math::kElementBytes;
  template <class Math>
  static constexpr int kStageBytes = kTokenBytes<Math>* kTokens;
  template <class Math>
  static constexpr std::size_t shared_bytes() {
    return std::size_t{kStages} * kStageBytes<Math> + sizeof(float) * kTokens * kPitch;
  }
};

template <class Math, int kParts, class F, class Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks) multiply_many(const __grid_constant__ FloatJob f) {
#if __CUDA_ARCH__ >= 800
  using Quad = typename Math::Quad;
  constexpr int kRowTiles = Shape::kRowTiles, kTokenTiles = Shape::kTokenTiles, kStages = Shape::kStages;
  constexpr int kTokenBytes = Shape::template kTokenBytes<Math>, kStageBytes = Shape::template kStageBytes<Math>;
  extern __shared__ __align__(16) std::byte shared[];
  auto* all = reinterpret_cast<float*>(shared + kStages * kStageBytes);  // [token][row]: sums of the units so far
  let_next_start();
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, g = lane / 4, t = lane % 4;
  const int warp_row = warp % Shape::kRowWarps * kRowTiles * kTileRows;
  const int warp_token = warp / Shape::kRowWarps * kTokenTiles * kTileTokens;
  const int first_row_tile = static_cast<int>(blockIdx.x % f.blocks_abreast) * (Shape::kRows / kTileRows);
  const int first_token = static_cast<int>(blockIdx.x / f.blocks_abreast) * Shape::kTokens;
  const int column_tiles = f.job.column_tiles, items = column_tiles * kParts;

  using W = typename Math::W;
  const Rows<W, F, kRowTiles> rows(f, first_row_tile + warp_row / kTileRows, lane);
  Weights<W, F, kRowTiles> weights, next = rows.load(0, column_tiles);
  wait_for_previous();

  // Copies 16 bytes at a time; a thread copies the same columns of several tokens.
  constexpr int kChunks = kTileColumns * Math::kElementBytes / 16, kTokensAtOnce = Shape::kThreads / kChunks;
  const int chunk = threadIdx.x % kChunks, chunk_token = threadIdx.x / kChunks;
  const std::byte* from = f.x + (first_token + chunk_token) * f.x_stride + chunk * 16;
  const auto fetch = [&](int item) {
    const int tile = item / kParts, part = item % kParts;
    const bool inside = tile * kTileColumns + chunk * (16 / Math::kElementBytes) < f.x_columns;
    std::byte* to = shared + item % kStages * kStageBytes + chunk_token * kTokenBytes + chunk * 16;
    const std::byte* tile_from = from + part * f.x_part + std::int64_t{tile} * kTileColumns * Math::kElementBytes;
#pragma unroll
    for (int i = 0; i < Shape::kTokens / kTokensAtOnce; ++i) {
      const int token = i * kTokensAtOnce;
      const bool there = inside && first_token + chunk_token + token < f.job.m;
      copy_16_async(to + token * kTokenBytes, there ? tile_from + token * f.x_stride : f.x, there);
    }
  };
#pragma unroll
  for (int item = 0; item < kStages - 1; ++item) {
    if (item < items) fetch(item);
    commit_copies();
  }

  float sums[kRowTiles][kTokenTiles][4] = {};
  for (int item = 0; item < items; ++item) {
    wait_for_copies<kStages - 2>();
    __syncthreads();  // all see this stage and are done with the one before it, which is filled next
    if (item + kStages - 1 < items) fetch(item + kStages - 1);
    commit_copies();

    const int tile = item / kParts;
    if (item % kParts == 0) {
      weights = next;
      next = rows.load(tile + 1, column_tiles);
    }
    const std::byte* x = shared + item % kStages * kStageBytes + (warp_token + g) * kTokenBytes;
    add_tile<Math, F>(sums, weights, [&](int step, int half, int j) {
      const int column = kStepColumns * step + 16 * half + 4 * t;
      return *reinterpret_cast<const Quad*>(x + j * kTileTokens * kTokenBytes + column * Math::kElementBytes);
    });

    const bool unit_ends = (tile + 1) % f.unit == 0 || tile + 1 == column_tiles;
    if (item % kParts != kParts - 1 || !unit_ends) continue;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int j = 0; j < kTokenTiles; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int token = warp_token + j * kTileTokens + 2 * t + i % 2;
          float& at = all[token * Shape::kPitch + warp_row + r * kTileRows + g + 8 * (i / 2)];
          at = tile < f.unit ? sums[r][j][i] : __fadd_rn(at, sums[r][j][i]);
          sums[r][j][i] = 0;
        }
  }
  __syncthreads();
  static_assert(Shape::kThreads % Shape::kRows == 0, "a thread has results of one row");
  const Results<Math, F> results(f, first_row_tile, threadIdx.x % Shape::kRows);
  for (int token = threadIdx.x / Shape::kRows; token < Shape::kTokens; token += Shape::kThreads / Shape::kRows)
    results.store(first_token + token, all[token * Shape::kPitch + threadIdx.x % Shape::kRows]);
#endif
}

}  // namespace
}  // namespace tern::linear
