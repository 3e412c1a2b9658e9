// The prefill kernel of linear on sm_90a: int8 activations by weights W, exact, with the matrix instructions of a
// warpgroup. For .cu files only.
//
// A block is two warpgroups that multiply and a thread that loads. It works through tiles of kRows rows of weights by
// kWidth tokens. For each step of 128 columns the copy engine loads
//
//     x        kWidth tokens x 128 bytes, swizzled             the operand in shared memory
//     weights  kRows rows x 128 columns: TileMma               16 bytes a lane, decoded to the operand in registers
//
// into one stage of a ring. Trits have 2 bits and x has 8, so a tile with more rows than tokens reads the fewest bytes.
// A warpgroup keeps kBlocks times 64 rows x kWidth sums; it decodes half a step while the products of the other half
// run. The second warpgroup follows the first by some steps, so that each stores its results while the other
// multiplies.
#pragma once

#include "ops/linear/cuda_wgmma_store.h"

namespace tern::linear {
namespace {

constexpr int kMultipliers = 2;  // warpgroups
constexpr int kWgmmaThreads = (kMultipliers + 1) * kGroupThreads;
constexpr int kSharedLimit = 227 * 1024;
constexpr int kMostStages = 16;
// Registers of a thread that multiplies and of one that does not: 2 * 128 * 232 + 128 * 40 <= 65536.
constexpr int kMultiplierRegisters = 232, kLoaderRegisters = 40;
// Numbers of barriers: one for each warpgroup, and the one at which the second waits for the first.
constexpr int kGroupBarrier = 1, kLeadBarrier = kGroupBarrier + kMultipliers;

// The copy engine moves tiles as elements of 4 bytes, or of 8 where a tile would have more than 256 elements, the limit
// of a box.
template <class W>
constexpr int kMapElementBytes = W::kTileBytes > 1024 ? 8 : 4;
template <class W>
constexpr int kMapColumns = W::kTileBytes / kMapElementBytes<W>;

// The shape of a kernel: its tile, the narrower tile for what is left for a last wave, and the layout of shared memory.
// With more buffers, more of a tile's results can wait for the copy engine, but the ring has less memory.
template <int kBlocks_, int kWidth_, int kTail_, int kBuffers_ = 2, class W_ = Trits>
struct WgmmaShape {
  using W = W_;
  static constexpr int kBlocks = kBlocks_, kWidth = kWidth_, kTail = kTail_, kBuffers = kBuffers_;
  static constexpr int kRows = kMultipliers * kBlocks * kGroupRows;
  static constexpr int kXBytes = kWidth * static_cast<int>(TileMma::kColumns);
  static constexpr int kWeightBytes = kRows / 16 * W::kTileBytes;
  static constexpr int kPart = kWidth % 64 == 0 ? 64 : kWidth % 48 == 0 ? 48 : kWidth;  // tokens stored together
  static constexpr int kPartBytes = kPart * kGroupRows * 2, kStagingBytes = kBuffers * kPartBytes;
  static constexpr int kTermsBytes = kWidth * static_cast<int>(sizeof(TokenTerms));
  static constexpr int kRowTermsBytes = kBlocks * kGroupRows * static_cast<int>(sizeof(RowTerms));
  static constexpr int kOtherBytes = kMultipliers * (kStagingBytes + kTermsBytes + kRowTermsBytes) + 512;
  static constexpr int kFit = (kSharedLimit - kOtherBytes) / (kXBytes + kWeightBytes);
  static constexpr int kStages = kFit < kMostStages ? kFit : kMostStages;

  // Offsets; multiples of 1024 for what the copy engine swizzles.
  static constexpr int kX = 0, kWeights = kX + kStages * kXBytes;
  static constexpr int kStaging = kWeights + kStages * kWeightBytes;
  static constexpr int kTerms = kStaging + kMultipliers * kStagingBytes;
  static constexpr int kRowTerms = kTerms + kMultipliers * kTermsBytes;
  static constexpr int kBarriers = kRowTerms + kMultipliers * kRowTermsBytes;
  static constexpr int kFull = kBarriers, kEmpty = kFull + 8 * kStages, kResidual = kEmpty + 8 * kStages;
  static constexpr int kDivides = kResidual + kBuffers * 8 * kMultipliers;  // the item whose scales need a division
  static constexpr int kSharedBytes = kDivides + 4 * kMultipliers;
  static_assert(kWidth % kTail == 0 && kTail % kBoxTokens == 0 && kStages >= 4);
  static_assert(kStaging % 1024 == 0 && kStagingBytes % 1024 == 0 && kTerms % 16 == 0 && kBarriers % 8 == 0);
  static_assert(kSharedBytes <= kSharedLimit);
};

struct WgmmaTile {
  int matrix;
  int row;    // the first, within the matrix
  int token;  // the first
  bool tail;  // whether it is a narrower tile
};

// The order of the work. Token blocks form groups; within a group, row blocks follow one another, each multiplied with
// all token blocks of the group. From tile `whole` on, each tile is cut into `cuts` narrower ones. Blocks take items in
// turn.
struct WgmmaTiles {
  int first_block[Linear::kMaxMatrices];  // first row block of each matrix
  int matrices;
  int row_blocks;  // of all matrices
  int rows;        // of a row block
  int token_blocks;
  int width, tail;  // tokens
  int group;        // token blocks
  int whole;
  int cuts;
  int items;

  [[nodiscard]] __host__ __device__ WgmmaTile at(int item) const {
    int tile = item, cut = 0;
    if (item >= whole) {
      tile = whole + (item - whole) / cuts;
      cut = (item - whole) % cuts;
    }
    const int in_group = tile % (group * row_blocks), first = tile / (group * row_blocks) * group;
    const int tokens = token_blocks - first < group ? token_blocks - first : group;
    const int block = in_group / tokens;
    int matrix = 0;
    while (matrix + 1 < matrices && block >= first_block[matrix + 1]) ++matrix;
    return {.matrix = matrix,
            .row = (block - first_block[matrix]) * rows,
            .token = (first + in_group % tokens) * width + cut * tail,
            .tail = item >= whole};
  }
};

struct WgmmaJob {
  CUtensorMap x, x_tail;  // boxes of 128 columns by the tokens of a tile
  CUtensorMap weights[Linear::kMaxMatrices];
  CUtensorMap y[Linear::kMaxMatrices];
  CUtensorMap residual[Linear::kMaxMatrices];
  Job job;
  WgmmaTiles tiles;
  const float* x_scales;
  cuda::Report report;
  bool fast[Linear::kMaxMatrices];  // the copy engine can store y and load the residual
  int lead;                         // steps by which the second warpgroup follows; 0: none
};

// --- loading ---

template <class S>
struct WgmmaLoader {
  const WgmmaJob& job;
  unsigned shared;
  hopper::Ring<S::kStages> ring = {};

  [[nodiscard]] __device__ unsigned full() const { return shared + S::kFull + 8 * ring.stage; }

  __device__ void load_weights(const WgmmaTile& tile, int step) {
    hopper::arrive_and_expect(full(), (tile.tail ? S::kTail : S::kWidth) * 128 + S::kWeightBytes);
    hopper::load_box(shared + S::kWeights + ring.stage * S::kWeightBytes, &job.weights[tile.matrix],
                     step * kMapColumns<typename S::W>, tile.row / 16, full());
  }
  __device__ void load_x(const WgmmaTile& tile, int step) {
    hopper::load_box(shared + S::kX + ring.stage * S::kXBytes, tile.tail ? &job.x_tail : &job.x, step * 128, tile.token,
                     full());
  }

  __device__ void run(int first, int stride) {
    const int steps = job.job.column_tiles;
    // Loads the first weights while the kernel before may still run.
    int early = -1;
    for (int item = first; item < job.tiles.items; item += stride) {
      const WgmmaTile tile = job.tiles.at(item);
      if (tile.token >= job.job.m) continue;
      if (early < 0) {
        early = steps < S::kStages ? steps : S::kStages;
        for (int step = 0; step < early; ++step, ring.advance()) load_weights(tile, step);
        ring = {};
        hopper::wait_for_kernel_before();
      }
      for (int step = 0; step < steps; ++step, ring.advance()) {
        if (early > 0) {
          --early;
        } else {
          hopper::wait(shared + S::kEmpty + 8 * ring.stage, ring.parity ^ 1U);
          load_weights(tile, step);
        }
        load_x(tile, step);
      }
    }
  }
};

// --- multiplying ---

template <class S>
struct WgmmaMultiplier {
  const WgmmaJob& job;
  std::byte* memory;
  unsigned shared;  // address of `memory`
  int group;        // which warpgroup
  int thread;       // of the warpgroup
  Staging staging;
  hopper::Ring<S::kStages> ring = {};

  using Tile = LaneTile<typename S::W>;
  using Operands = unsigned[S::kBlocks][2][4];  // of half a step

  // A lane's part of a block's weights in the stage.
  [[nodiscard]] __device__ Tile tile_of(int block) const {
    constexpr int kOfBlock = kGroupThreads / kWarp * Tile::kStride;  // a tile of each warp
    const auto* from = reinterpret_cast<const uint4*>(memory + S::kWeights + ring.stage * S::kWeightBytes) +
                       group * S::kBlocks * kOfBlock + thread + thread / kWarp * (Tile::kStride - kWarp);
    return Tile::at(from + block * kOfBlock);
  }
  // Both halves of a step of trits are in the same 16 bytes. Wider weights are read when they are decoded.
  static constexpr bool kReadsWhole = S::W::kLoads == 1;
  __device__ void read(Tile (&tiles)[S::kBlocks]) const {
    hopper::wait(shared + S::kFull + 8 * ring.stage, ring.parity);
    if constexpr (kReadsWhole)
#pragma unroll
      for (int block = 0; block < S::kBlocks; ++block) tiles[block] = tile_of(block);
  }
  template <int kHalf>
  __device__ void decode(const Tile (&tiles)[S::kBlocks], Operands& a) const {
#pragma unroll
    for (int block = 0; block < S::kBlocks; ++block) {
      const Tile tile = kReadsWhole ? tiles[block] : tile_of(block);
      tile.operand(a[block][0], 2 * kHalf);
      tile.operand(a[block][1], 2 * kHalf + 1);
    }
  }
  // Keeps the compiler from moving accesses to these registers across this point: they are written before the fence
  // that precedes the products, and read after the wait for the products.
  static __device__ void keep(Operands& a) {
#pragma unroll
    for (int i = 0; i < S::kBlocks * 8; ++i) asm volatile("" : "+r"(a[i / 8][i / 4 % 2][i % 4])::"memory");
  }
  template <int kSums>
  static __device__ void keep(int (&sums)[S::kBlocks][kSums]) {
#pragma unroll
    for (int i = 0; i < S::kBlocks * kSums; ++i) asm volatile("" : "+r"(sums[i / kSums][i % kSums])::"memory");
  }
  template <int kTokens>
  static __device__ void multiply(int (&sums)[S::kBlocks][kTokens / 2], Operands& a, std::uint64_t x) {
    keep(a);
    hopper::products_begin();
#pragma unroll
    for (int step = 0; step < 2; ++step)
#pragma unroll
      for (int block = 0; block < S::kBlocks; ++block)
        hopper::product(sums[block], a[block][step], x + step * hopper::kOperandStep);
    hopper::products_group();
  }
  // Marks that a warp is done with a stage.
  __device__ void release(unsigned stage) const {
    if (thread % kWarp == 0) hopper::arrive(shared + S::kEmpty + 8 * stage);
  }

  // Adds all steps to the sums, which begin as 0.
  template <int kTokens>
  __device__ void sum(int (&sums)[S::kBlocks][kTokens / 2]) {
    const int steps = job.job.column_tiles;
    Tile tiles[S::kBlocks];
    Operands even, odd;  // the halves of a step
    read(tiles);
    decode<0>(tiles, even);
    keep(sums);
    unsigned before = 0;
    for (int step = 0;; ++step) {
      const unsigned stage = ring.stage;
      const std::uint64_t x = hopper::operand_at(shared + S::kX + stage * S::kXBytes);
      multiply<kTokens>(sums, even, x);
      hopper::wait_products<1>();  // those of the step before are done
      if (step > 0) release(before);
      decode<1>(tiles, odd);
      multiply<kTokens>(sums, odd, x + 2 * hopper::kOperandStep);
      ring.advance();
      if (step + 1 == job.lead && group == 0) hopper::arrive_threads(kLeadBarrier, kMultipliers * kGroupThreads);
      if (step + 1 == steps) break;
      read(tiles);
      hopper::wait_products<1>();  // those of `even` are done
      decode<0>(tiles, even);
      before = stage;
    }
    hopper::wait_products<0>();
    keep(sums);
    release(ring.stage == 0 ? S::kStages - 1 : ring.stage - 1);
  }

  template <int kTokens>
  __device__ void run(const WgmmaTile& tile, int item) {
    constexpr int kPart = kTokens < S::kPart ? kTokens : S::kPart,
                  kScales = (kTokens + kGroupThreads - 1) / kGroupThreads;
    const MatrixJob& matrix = job.job.matrices[tile.matrix];
    auto* const terms = reinterpret_cast<TokenTerms*>(memory + S::kTerms + group * S::kTermsBytes);
    auto* const rows = reinterpret_cast<RowTerms*>(memory + S::kRowTerms + group * S::kRowTermsBytes);
    auto* const wants_division = reinterpret_cast<volatile int*>(memory + S::kDivides) + group;
    const bool fast = job.fast[tile.matrix];
    const StoreJob store{.matrix = matrix,
                         .y = &job.y[tile.matrix],
                         .residual = fast && matrix.residual != nullptr ? &job.residual[tile.matrix] : nullptr,
                         .x_scales = job.x_scales,
                         .terms = terms,
                         .row_terms = rows,
                         .number = kGroupBarrier + group,
                         .thread = thread,
                         .m = job.job.m,
                         .row = tile.row + group * S::kBlocks * kGroupRows,
                         .token = tile.token};
    const bool residual = store.residual != nullptr && store.row < matrix.n;
    constexpr int kParts = S::kBlocks * (kTokens / kPart), kEarly = kParts < S::kBuffers ? kParts : S::kBuffers;
    if (residual && thread == 0) {
      hopper::wait_stores_read<0>();
      for (int part = 0; part < kEarly; ++part) load_residual<kTokens, kPart>(store, staging, part, part);
    }
    // These loads finish while the products run.
    float scales[kScales];
    RowTerms row;
#pragma unroll
    for (int i = 0; i < kScales; ++i) {
      const int token = tile.token + i * kGroupThreads + thread;
      scales[i] = job.x_scales != nullptr && token < job.job.m ? job.x_scales[token] : 1.0F;
      if (store.row == 0) check_scale(job.report, scales[i], token);
    }
    if (thread < S::kBlocks * kGroupRows && store.row + thread < matrix.n) row = row_terms(matrix, store.row + thread);
    if (job.lead > 0 && group == 1) hopper::sync_threads(kLeadBarrier, kMultipliers * kGroupThreads);
    int sums[S::kBlocks][kTokens / 2] = {};
    sum<kTokens>(sums);

#pragma unroll
    for (int i = 0; i < kScales; ++i) {
      const int at = i * kGroupThreads + thread;
      if (at < kTokens) terms[at] = token_terms<typename S::W>(scales[i]);
      if (at < kTokens && !corrects(scales[i])) atomicExch(const_cast<int*>(wants_division), item);
    }
    if (matrix.bias == nullptr) row.bias = -0.0F;  // adding -0 changes nothing; earlier, this would wait for loads
    if (thread < S::kBlocks * kGroupRows) rows[thread] = row;
    if (!residual && thread == 0) hopper::wait_stores_read<0>();
    store.sync();
    const bool divides = *wants_division == item;
    if (fast && !divides) {
      if (residual || matrix.squared_relu || matrix.y_dtype != DType::bf16)
        store_fast<false, S::kBlocks, kTokens, kPart, S::kBuffers>(store, sums, staging);
      else
        store_fast<true, S::kBlocks, kTokens, kPart, S::kBuffers>(store, sums, staging);
    } else {
      if (residual) {
        for (int part = 0; part < kEarly; ++part)
          if (Parts<kTokens, kPart>::row(store, part) < matrix.n) staging.wait_residual(part);
      }
      store_plain<typename S::W, S::kBlocks, kTokens, kPart>(store, sums, staging, divides);
    }
  }

  __device__ void run(int first, int stride) {
    for (int item = first; item < job.tiles.items; item += stride) {
      const WgmmaTile tile = job.tiles.at(item);
      if (tile.token >= job.job.m) continue;
      if constexpr (S::kTail != S::kWidth)
        if (tile.tail) {
          run<S::kTail>(tile, item);
          continue;
        }
      run<S::kWidth>(tile, item);
    }
    if (thread == 0) hopper::wait_stores_done();
  }
};

template <class S>
__global__ void __launch_bounds__(kWgmmaThreads, 1) wgmma_kernel(const __grid_constant__ WgmmaJob job) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) std::byte memory[];
  const unsigned shared = hopper::shared_address(memory);
  const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
  const int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
  const int first = static_cast<int>(blockIdx.x), stride = static_cast<int>(gridDim.x);
  if (threadIdx.x == 0) {
#pragma unroll 1
    for (int i = 0; i < S::kStages; ++i) {
      hopper::barrier_init(shared + S::kFull + 8 * i, 1);
      hopper::barrier_init(shared + S::kEmpty + 8 * i, kMultipliers * (kGroupThreads / kWarp));
    }
    for (int i = 0; i < kMultipliers; ++i) {
      for (int b = 0; b < S::kBuffers; ++b) hopper::barrier_init(shared + S::kResidual + 8 * (i * S::kBuffers + b), 1);
      reinterpret_cast<int*>(memory + S::kDivides)[i] = -1;
    }
    hopper::barrier_init_done();
  }
  __syncthreads();
  hopper::launch_dependents();
  if (group == kMultipliers) {
    hopper::give_registers<kLoaderRegisters>();
    if (thread == 0) {
      hopper::prefetch_map(&job.x);
      hopper::prefetch_map(&job.weights[0]);
      WgmmaLoader<S>{.job = job, .shared = shared}.run(first, stride);
    }
    __syncwarp();
  } else {
    hopper::take_registers<kMultiplierRegisters>();
    hopper::wait_for_kernel_before();
    WgmmaMultiplier<S>{.job = job,
                       .memory = memory,
                       .shared = shared,
                       .group = group,
                       .thread = thread,
                       .staging = {.memory = memory + S::kStaging + group * S::kStagingBytes,
                                   .buffer_bytes = S::kPartBytes,
                                   .residual_barriers = shared + S::kResidual + 8 * S::kBuffers * group}}
        .run(first, stride);
  }
#endif
}

}  // namespace
}  // namespace tern::linear
