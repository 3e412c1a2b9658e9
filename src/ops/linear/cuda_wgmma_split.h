// The prefill kernel of linear on sm_90a for few tokens or few tiles: the blocks of a cluster share a tile of 128 rows
// by kWidth tokens. For .cu files only.
//
//     block 0   its steps of 128 columns    sums of all tokens, in shared memory  \ /  adds and finishes some tokens
//     block 1   the next ones               the same, of its steps                 X   the next ones
//     ...                                                                         / \  ...
//
// Sums are integers, so results do not depend on their order. A block computes one tile. Where tiles are narrow, two
// blocks fit a multiprocessor: each works while the other waits, and blocks of the next kernel load their weights while
// these finish.
#pragma once

#include "ops/linear/cuda_wgmma.h"

namespace tern::linear {
namespace {

constexpr int kSplitThreads = kMultipliers * kGroupThreads + kWarp;
constexpr int kSplitRows = kMultipliers * kGroupRows;
constexpr int kSplitWarps = kMultipliers * kGroupThreads / kWarp;  // warps that multiply
constexpr int kMostSplit = 8;

template <int kWidth_, class W_ = Trits>
struct SplitShape {
  using W = W_;
  static constexpr int kWidth = kWidth_;
  static constexpr int kResident = kWidth <= 96 ? 2 : 1;  // blocks of a multiprocessor, limited by registers
  static constexpr int kLimit = 228 * 1024 / kResident - 1024;
  static constexpr int kXBytes = kWidth * static_cast<int>(TileMma::kColumns);
  static constexpr int kWeightBytes = kSplitRows / 16 * W::kTileBytes;
  static constexpr int kSumsBytes = kSplitRows * kWidth * 4;
  static constexpr int kTermsBytes = kWidth * static_cast<int>(sizeof(TokenTerms));
  static constexpr int kRowTermsBytes = kSplitRows * static_cast<int>(sizeof(RowTerms));
  static constexpr int kOtherBytes = kTermsBytes + kRowTermsBytes + 2 * 8 * kMostStages;
  static constexpr int kFit = (kLimit - kOtherBytes) / (kXBytes + kWeightBytes);
  static constexpr int kStages = kFit < kMostStages ? kFit : kMostStages;

  // Offsets. The sums overwrite the stages once all of these are read.
  static constexpr int kX = 0, kWeights = kX + kStages * kXBytes, kSums = 0;
  static constexpr int kRowTerms = kWeights + kStages * kWeightBytes;
  static constexpr int kTerms = kRowTerms + kRowTermsBytes;
  static constexpr int kFull = kTerms + kTermsBytes, kEmpty = kFull + 8 * kStages;
  static constexpr int kSharedBytes = kEmpty + 8 * kStages;
  static_assert(kWidth % 16 == 0 && kStages >= 4 && kSumsBytes <= kRowTerms && kSharedBytes <= kLimit);
};

struct SplitJob {
  CUtensorMap x;  // boxes of 128 columns by kWidth tokens
  CUtensorMap weights[Linear::kMaxMatrices];
  Job job;
  const float* x_scales;
  cuda::Report report;
  int first_block[Linear::kMaxMatrices];  // first row block of each matrix
  int row_blocks;
  int log_split;                     // a block has at least one step
  bool quads[Linear::kMaxMatrices];  // four rows of a token of y and of the residual are aligned to their size

  [[nodiscard]] __device__ WgmmaTile tile(int row_block, int token) const {
    int matrix = 0;
    while (matrix + 1 < job.count && row_block >= first_block[matrix + 1]) ++matrix;
    return {.matrix = matrix, .row = (row_block - first_block[matrix]) * kSplitRows, .token = token, .tail = false};
  }
};

// The place of a sum. The exclusive or spreads the four tokens that a warp writes at once over the banks and keeps
// fours of rows together.
__host__ __device__ constexpr int split_offset(int token, int row) {
  return token * kSplitRows + (row ^ (token / 2 % 4 * 8));
}

// --- loading ---

// Called by one thread: loads `count` steps from `first` on.
template <class S>
__device__ void load_steps(const SplitJob& job, const WgmmaTile& tile, unsigned shared, int first, int count) {
  hopper::Ring<S::kStages> ring = {};
  const CUtensorMap* const weights = &job.weights[tile.matrix];
  const auto full = [&] { return shared + S::kFull + 8 * ring.stage; };
  const auto load_weights = [&](int step) {
    hopper::arrive_and_expect(full(), S::kXBytes + S::kWeightBytes);
    hopper::load_box(shared + S::kWeights + ring.stage * S::kWeightBytes, weights,
                     (first + step) * kMapColumns<typename S::W>, tile.row / 16, full());
  };
  // Loads the first weights while the kernel before may still run.
  const int early = count < S::kStages ? count : S::kStages;
  for (int step = 0; step < early; ++step, ring.advance()) load_weights(step);
  hopper::wait_for_kernel_before();
  ring = {};
  for (int step = 0; step < count; ++step, ring.advance()) {
    if (step >= early) {
      hopper::wait(shared + S::kEmpty + 8 * ring.stage, ring.parity ^ 1U);
      load_weights(step);
    }
    hopper::load_box(shared + S::kX + ring.stage * S::kXBytes, &job.x,
                     (first + step) * static_cast<int>(TileMma::kColumns), tile.token, full());
  }
}

// --- multiplying ---

template <class S>
struct SplitMultiplier {
  const std::byte* memory;
  unsigned shared;  // address of `memory`
  int thread;       // of both warpgroups
  hopper::Ring<S::kStages> ring = {};
  unsigned used = 0;  // the stage that is released next

  using Tile = LaneTile<typename S::W>;
  using Sums = int[S::kWidth / 2];
  using Operands = unsigned[2][4];

  // The next tile is read while products run. Not with 8-bit weights: their bytes are operands as they are, so running
  // products still read those registers, and the next tile is read when they are free.
  static constexpr bool kReadsAhead = S::W::kBits < 8;

  __device__ void wait_full() const { hopper::wait(shared + S::kFull + 8 * ring.stage, ring.parity); }
  [[nodiscard]] __device__ Tile read(unsigned stage) const {
    return Tile::at(reinterpret_cast<const uint4*>(memory + S::kWeights + stage * S::kWeightBytes) + thread +
                    thread / kWarp * (Tile::kStride - kWarp));
  }
  template <int kHalf>
  __device__ void decode(const Tile& ahead, unsigned stage, Operands& a) const {
    const Tile tile = kReadsAhead ? ahead : read(stage);
    tile.operand(a[0], 2 * kHalf);
    tile.operand(a[1], 2 * kHalf + 1);
  }
  // Keeps the compiler from moving accesses to these registers across this point: see WgmmaMultiplier.
  static __device__ void keep(Sums& sums) {
#pragma unroll
    for (int i = 0; i < S::kWidth / 2; ++i) asm volatile("" : "+r"(sums[i])::"memory");
  }
  static __device__ void multiply(Sums& sums, Operands& a, std::uint64_t x) {
#pragma unroll
    for (int i = 0; i < 8; ++i) asm volatile("" : "+r"(a[i / 4][i % 4])::"memory");
    hopper::products_begin();
#pragma unroll
    for (int i = 0; i < 2; ++i) hopper::product(sums, a[i], x + i * hopper::kOperandStep);
    hopper::products_group();
  }
  // Marks that a warp is done with the oldest stage.
  __device__ void release() {
    if (thread % kWarp == 0) hopper::arrive(shared + S::kEmpty + 8 * used);
    if (++used == S::kStages) used = 0;
  }

  // Adds `count` steps to the sums, which begin as 0.
  __device__ void sum(Sums& sums, int count) {
    Tile tile, next;
    Operands even, odd;  // the halves of a step
    wait_full();
    if constexpr (kReadsAhead) tile = next = read(ring.stage);
    keep(sums);
    for (int step = 0;; ++step) {
      const unsigned stage = ring.stage;
      decode<0>(tile, stage, even);
      const std::uint64_t x = hopper::operand_at(shared + S::kX + stage * S::kXBytes);
      multiply(sums, even, x);
      ring.advance();
      if (step + 1 < count) {
        wait_full();
        if constexpr (kReadsAhead) next = read(ring.stage);
      }
      hopper::wait_products<1>();  // those of the step before are done
      if (step > 0) release();
      decode<1>(tile, stage, odd);
      multiply(sums, odd, x + 2 * hopper::kOperandStep);
      if (step + 1 == count) break;
      tile = next;
      hopper::wait_products<1>();  // those of `even` are done
    }
    hopper::wait_products<0>();
    keep(sums);
  }
};

// --- finishing ---

// The residual of four rows of a token, as bits.
__device__ inline uint4 quad_residual(const MatrixJob& matrix, std::int64_t token, int row) {
  const std::int64_t from = token * matrix.residual_stride + row;
  if (matrix.y_dtype == DType::f32) return *reinterpret_cast<const uint4*>(matrix.residual + from * 4);
  const uint2 two = *reinterpret_cast<const uint2*>(matrix.residual + from * 2);
  return {two.x << 16 >> 16, two.x >> 16, two.y << 16 >> 16, two.y >> 16};
}
__device__ inline float widened(DType dtype, unsigned bits) {
  const auto half = static_cast<std::uint16_t>(bits);
  return dtype == DType::f32    ? __uint_as_float(bits)
         : dtype == DType::bf16 ? cuda::Bf16::widen(half)
                                : cuda::F16::widen(half);
}

// Stores four rows of a token, except those beyond the matrix. t: before the residual is added.
__device__ inline void store_quad(const MatrixJob& matrix, bool quads, std::int64_t token, int row, float (&t)[4],
                                  const uint4& residual) {
  const std::int64_t at = token * matrix.y_stride + row;
  if (!quads || row + 4 > matrix.n) {
#pragma unroll 1
    for (int i = 0; i < 4 && row + i < matrix.n; ++i) {
      const float v = i == 0 ? t[0] : i == 1 ? t[1] : i == 2 ? t[2] : t[3];
      if (matrix.y_dtype == DType::i32)
        reinterpret_cast<unsigned*>(matrix.y)[at + i] = __float_as_uint(v);
      else
        store_y(matrix, token, row + i, v);
    }
    return;
  }
  if (matrix.residual != nullptr) {
    t[0] = __fadd_rn(t[0], widened(matrix.y_dtype, residual.x));
    t[1] = __fadd_rn(t[1], widened(matrix.y_dtype, residual.y));
    t[2] = __fadd_rn(t[2], widened(matrix.y_dtype, residual.z));
    t[3] = __fadd_rn(t[3], widened(matrix.y_dtype, residual.w));
  }
  if (matrix.y_dtype == DType::bf16)
    *reinterpret_cast<uint2*>(matrix.y + at * 2) = make_uint2(pack_bf16(t[0], t[1]), pack_bf16(t[2], t[3]));
  else if (matrix.y_dtype == DType::f16)
    *reinterpret_cast<uint2*>(matrix.y + at * 2) = make_uint2(pack_f16(t[0], t[1]), pack_f16(t[2], t[3]));
  else
    *reinterpret_cast<uint4*>(matrix.y + at * 4) =
        make_uint4(__float_as_uint(t[0]), __float_as_uint(t[1]), __float_as_uint(t[2]), __float_as_uint(t[3]));
}

// What a lane loads of a token: the sums of all blocks, and the residual.
struct Quad {
  int4 part[kMostSplit];
  uint4 residual;
};

// Adds up this block's share of the tokens over the cluster and finishes them. A warp takes a token, a lane four rows.
// On entry every block's sums are in its shared memory. The code is kept small, because each block runs it only once or
// twice.
template <class S>
__device__ void finish_tokens(const SplitJob& job, const WgmmaTile& tile, const std::byte* memory, unsigned shared,
                              int rank, int warp, int lane) {
  const MatrixJob& matrix = job.job.matrices[tile.matrix];
  const int row = tile.row + 4 * lane, split = 1 << job.log_split, most = S::kWidth >> job.log_split;
  const int first = tile.token + rank * most, tokens = job.job.m - first < most ? job.job.m - first : most;
  const bool quads = job.quads[tile.matrix];
  const bool residual = quads && matrix.residual != nullptr && row + 4 <= matrix.n;
  if (row >= matrix.n) return;
  // Reads only what is used: when the value of a read was used, that read has ended, and the other blocks may end.
  const auto load = [&](Quad& quad, int at) {
    if (residual) quad.residual = quad_residual(matrix, first + at, row);
    const int from = S::kSums + 4 * split_offset(rank * most + at, 4 * lane);
    quad.part[0] = *reinterpret_cast<const int4*>(memory + from);
#pragma unroll
    for (int i = 1; i < kMostSplit; ++i)
      if (i < split) quad.part[i] = hopper::read_from(shared + from, (rank + i) & (split - 1));
  };
  Quad quad = {};
  if (warp < tokens) load(quad, warp);
#pragma unroll 1
  for (int at = warp; at < tokens; at += kSplitWarps) {
    int sums[4] = {};
#pragma unroll
    for (const int4& part : quad.part) {
      sums[0] += part.x;
      sums[1] += part.y;
      sums[2] += part.z;
      sums[3] += part.w;
    }
    const uint4 more = quad.residual;
    if (at + kSplitWarps < tokens) load(quad, at + kSplitWarps);
    const TokenTerms terms = reinterpret_cast<const TokenTerms*>(memory + S::kTerms)[at];
    const auto* const rows = reinterpret_cast<const RowTerms*>(memory + S::kRowTerms) + 4 * lane;
    float t[4];
    if (matrix.y_dtype == DType::i32) {
#pragma unroll
      for (int i = 0; i < 4; ++i) t[i] = __int_as_float(S::W::dot_of(sums[i]));
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) t[i] = quotient_of(sums[i], terms.s, terms.reciprocal);
      if (terms.reciprocal == 0) {  // Quotient divides as well
        const float scale = job.x_scales[first + at];
#pragma unroll
        for (int i = 0; i < 4; ++i) t[i] = __fdiv_rn(__int2float_rn(S::W::dot_of(sums[i])), scale);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) t[i] = activated(matrix, rows[i], t[i]);
    }
    store_quad(matrix, quads, first + at, row, t, more);
  }
}

template <class S>
__global__ void __launch_bounds__(kSplitThreads, S::kResident)
    wgmma_split_kernel(const __grid_constant__ SplitJob job) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) std::byte memory[];
  const unsigned shared = hopper::shared_address(memory);
  const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarp, 0);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, split = 1 << job.log_split;
  const int rank = split == 1 ? 0 : static_cast<int>(hopper::cluster_rank());
  const int steps = job.job.column_tiles;
  const int first = rank * steps >> job.log_split, count = ((rank + 1) * steps >> job.log_split) - first;
  const WgmmaTile tile =
      job.tile(static_cast<int>(blockIdx.x) >> job.log_split, static_cast<int>(blockIdx.y) * S::kWidth);
  if (warp == kSplitWarps && lane == 0) {
    hopper::prefetch_map(&job.weights[tile.matrix]);
    hopper::prefetch_map(&job.x);
#pragma unroll 1
    for (int i = 0; i < S::kStages; ++i) {
      hopper::barrier_init(shared + S::kFull + 8 * i, 1);
      hopper::barrier_init(shared + S::kEmpty + 8 * i, kSplitWarps);
    }
    hopper::barrier_init_done();
  }
  __syncthreads();
  hopper::launch_dependents();
  if (warp == kSplitWarps) {
    if (lane == 0) load_steps<S>(job, tile, shared, first, count);
    __syncwarp();
    if (split > 1) {
      hopper::cluster_sync();
      hopper::cluster_arrive();
      hopper::cluster_wait();
    }
    return;
  }

  hopper::wait_for_kernel_before();
  const MatrixJob& matrix = job.job.matrices[tile.matrix];
  if (thread < kSplitRows) {
    RowTerms row;
    if (tile.row + thread < matrix.n) row = row_terms(matrix, tile.row + thread);
    reinterpret_cast<RowTerms*>(memory + S::kRowTerms)[thread] = row;
  } else if (const int at = thread - kSplitRows; at < S::kWidth >> job.log_split) {
    const int token = tile.token + rank * (S::kWidth >> job.log_split) + at;
    const float scale = job.x_scales != nullptr && token < job.job.m ? job.x_scales[token] : 1.0F;
    if (tile.row == 0) check_scale(job.report, scale, token);
    // A reciprocal of 0 makes finish_tokens() divide.
    reinterpret_cast<TokenTerms*>(memory + S::kTerms)[at] =
        corrects(scale) ? token_terms<typename S::W>(scale) : TokenTerms{};
  }

  int sums[S::kWidth / 2] = {};
  SplitMultiplier<S>{.memory = memory, .shared = shared, .thread = thread}.sum(sums, count);
  // After this barrier both warpgroups have read every stage, so the sums can overwrite them.
  hopper::sync_threads(kGroupBarrier, kMultipliers * kGroupThreads);
  auto* const staged = reinterpret_cast<int*>(memory + S::kSums);
  const int mine = split_offset(2 * (lane % 4), 16 * warp + lane / 4);
#pragma unroll
  for (int i = 0; i < S::kWidth / 2; ++i)  // see product()
    staged[(mine ^ i % 4 / 2 * 8) + (i / 4 * 8 + i % 2) * kSplitRows] = sums[i];
  if (split > 1)
    hopper::cluster_sync();
  else
    hopper::sync_threads(kGroupBarrier, kMultipliers * kGroupThreads);
  finish_tokens<S>(job, tile, memory, shared, rank, warp, lane);
  // No block ends while another reads its sums.
  if (split > 1) {
    __syncwarp();
    hopper::cluster_arrive();
    hopper::cluster_wait();
  }
#endif
}

}  // namespace
}  // namespace tern::linear
