// The decode kernel of linear on sm_90: a few int8 tokens by weights W that stream through shared memory. For .cu files
// only.
//
// A block takes some row tiles. Their column tiles, in the order of memory, are divided among its warps in equal
// stretches, regardless of rows:
//
//     row tile      r          r + 1        r + 2
//     tiles    |0 1 2 3 4 5|6 7 8 9 . .|. . . . . .|
//     warp      0 0 0 0 1 1 1 1 2 2 2 2 3 3 3 3 ...      a warp adds its part of a row to the sums in shared memory
//
// Each warp has its own ring of slots, filled by the copy engine, so that it waits for its own weights only. A block
// requests what its rings have room for, all of a small matrix, before it waits for the kernel before: with dependent
// launches, a matrix is loaded while its tokens are still being computed. So many requests would delay all others, so a
// block first pauses until the kernel before has its tokens. Little is done after the wait for that kernel, because
// small matrices take no longer than that.
#pragma once

#include <type_traits>

#include "ops/linear/cuda_hopper.h"
#include "ops/linear/cuda_job.h"
#include "ops/linear/cuda_tokens.h"

namespace tern::linear {
namespace {

// The fields that a block needs to request its first weights come first, in one cache line of the parameters.
struct StreamJob {
  const uint4* first_tiles;                // of the first matrix
  std::int32_t block_rows, longer_blocks;  // row tiles of a block; the first longer_blocks blocks have one more
  std::int32_t column_tiles;
  std::uint32_t row_inverse;                // ceil(2^32 / column_tiles)
  std::int32_t share[2], longer_shares[2];  // tiles of a warp (shorter, longer blocks); the first warps have one more
  std::int32_t slots, slot_tiles;           // of a warp's ring
  std::int32_t ring_at;                     // offsets in shared memory; barriers are at 0
  std::int32_t first_end;                   // row tiles of the first matrix
  std::int32_t used_bytes;                  // of this struct: without unused matrices

  std::int32_t tokens_at, sums_at, maxima_at, terms_at, token_barrier_at;
  std::int32_t token_pitch;  // bytes in shared memory
  std::int32_t sums_pitch;   // from token to token
  bool bulk;                 // the copy engine loads the tokens
  std::int32_t pause;        // clocks before the first request
  Tokens tokens;
  Job job;
};

// The most warps of a block. Two blocks fit a multiprocessor: this kernel's and the next one's.
constexpr int kStreamWarps = 16;

// kTokens: 1, or 8 for 2 to 8 tokens.
template <class W, class X, int kTokens>
struct StreamBlock {
  static constexpr bool kQuantizes = !std::is_same_v<X, Codes>;
  static constexpr int kChains = 2;  // of sums, so that fewer products wait for each other
  static constexpr int kTileBytes = W::kTileBytes, kTileStride = LaneTile<W>::kStride;
  static constexpr int kColumns = static_cast<int>(TileMma::kColumns), kRows = static_cast<int>(TileMma::kRows);
  // The next tile is read from shared memory before this one is added. A tile of more bytes leaves enough time to read
  // it without that, and no registers to read ahead.
  static constexpr bool kReadsAhead = W::kLoads == 1;
  using Sums = int[kChains][4];

  const StreamJob& stream;
  const Job& job;
  std::byte* shared;
  int thread, warp, lane, threads;
  int tokens;
  int first_row, rows;  // row tiles before this block's, rows of this block
  int* block_sums;      // [tokens][rows]

  __device__ explicit StreamBlock(const StreamJob& all)
      : stream(all), job(all.job), shared(launched_shared()), thread(static_cast<int>(threadIdx.x)) {
    warp = __shfl_sync(kAllLanes, thread / kWarp, 0);
    lane = opaque(thread % kWarp);
    threads = static_cast<int>(blockDim.x);
    tokens = kTokens == 1 ? 1 : job.m;
    const int block = static_cast<int>(blockIdx.x);
    first_row = block * stream.block_rows + min(block, stream.longer_blocks);
    rows = (stream.block_rows + (block < stream.longer_blocks ? 1 : 0)) * kRows;
    block_sums = reinterpret_cast<int*>(shared + stream.sums_at);
  }

  [[nodiscard]] __device__ Team team() const { return {thread, threads}; }

  // Parameters come from memory at their first use, which takes long. To load all used lines at once, each warp reads
  // one.
  __device__ void fetch_parameters() const {
    constexpr int kLine = 64;
    const auto* bytes = reinterpret_cast<const std::byte*>(&stream);
#pragma unroll 1
    for (int i = warp * kLine; i < stream.used_bytes; i += threads / kWarp * kLine)
      (void)opaque(*reinterpret_cast<const int*>(bytes + i));
  }

  // --- weights ---

  // A warp's stretch of the block's tiles.
  struct Stretch {
    int first, count;
  };
  [[nodiscard]] __device__ Stretch stretch() const {
    const bool longer = rows > stream.block_rows * kRows;
    const int share = stream.share[longer], more = stream.longer_shares[longer];
    return {warp * share + min(warp, more), share + (warp < more ? 1 : 0)};
  }
  [[nodiscard]] __device__ int row_of(int tile) const {
    return stream.column_tiles == 1 ? tile : static_cast<int>(__umulhi(tile, stream.row_inverse));
  }
  [[nodiscard]] __device__ unsigned barriers() const { return shared_address(shared) + warp * stream.slots * 8; }
  [[nodiscard]] __device__ std::byte* ring() const {
    return shared + stream.ring_at + warp * stream.slots * stream.slot_tiles * kTileBytes;
  }
  // Requests tiles of the block, which are contiguous except where a matrix ends.
  __device__ void request(int tile, int count, unsigned to, unsigned barrier) const {
    hopper::arrive_and_expect(barrier, count * kTileBytes);
    const std::int64_t columns = stream.column_tiles;
    std::int64_t at = first_row * columns + tile;
    if (at + count <= stream.first_end * columns) {
      hopper::load_bytes(to, stream.first_tiles + at * kTileStride, count * kTileBytes, barrier);
      return;
    }
#pragma unroll 1
    for (int i = 0; count > 0; ++i) {
      const std::int64_t end = (i + 1 < job.count ? job.matrices[i + 1].first_tile : job.row_tiles) * columns;
      if (at >= end) continue;
      const int here = static_cast<int>(min(static_cast<std::int64_t>(count), end - at));
      const std::int64_t in_matrix = at - job.matrices[i].first_tile * columns;
      hopper::load_bytes(to, job.matrices[i].tiles + in_matrix * kTileStride, here * kTileBytes, barrier);
      to += here * kTileBytes;
      at += here;
      count -= here;
    }
  }
  // Called by one lane: requests the slot of the stretch that begins with that tile.
  __device__ void request_slot(const Stretch& own, int tile, int slot) const {
    request(own.first + tile, min(stream.slot_tiles, own.count - tile),
            shared_address(ring()) + slot * stream.slot_tiles * kTileBytes, barriers() + slot * 8);
  }
  // Called by one lane: requests as much as the ring has room for. Returns the number of tiles requested.
  __device__ int fill_ring(const Stretch& own) const {
#pragma unroll 1
    for (int i = 0; i < stream.slots; ++i) hopper::barrier_init(barriers() + i * 8, 1);
    hopper::barrier_init_done();
    int tile = 0;
#pragma unroll 1
    for (int slot = 0; slot < stream.slots && tile < own.count; ++slot, tile += stream.slot_tiles)
      request_slot(own, tile, slot);
    return tile;
  }

  // --- tokens ---

  // Writes nothing beyond k, because the weights there are 0.
  __device__ void copy_tokens_in() const {
    const Tokens& from = stream.tokens;
    if (kTokens > 1 && stream.bulk) {
      if (thread < tokens)
        hopper::load_bytes(shared_address(shared + stream.tokens_at) + thread * stream.token_pitch,
                           static_cast<const std::byte*>(from.x) + thread * from.stride, from.k,
                           shared_address(shared + stream.token_barrier_at));
      return;
    }
    const auto* x = static_cast<const std::byte*>(from.x) + thread * kChunk;
    std::byte* to = shared + stream.tokens_at + thread * kChunk;
    for (int token = 0; token < tokens; ++token, x += from.stride, to += stream.token_pitch)
#pragma unroll 1
      for (int at = 0; thread * kChunk + at < from.k; at += threads * kChunk)
        copy_chunk<Sm80>(to + at, x + at, from.k - thread * kChunk - at, from.aligned);
  }

  // --- sums ---

  template <int kStep>
  static __device__ void add_step(Sums& sums, const LaneTile<W>& weights, unsigned b0, unsigned b1) {
    unsigned a[4];
    weights.operand(a, kStep);
    Sm80::mma(sums[kStep % kChains], a, b0, b1);
  }
  // Adds a column tile; at: address of this lane's row of the first matrix of tokens, at that column.
  static __device__ void add(Sums& sums, const LaneTile<W>& weights, unsigned at) {
    unsigned b[2][4];
    load_matrices(b[0], at);
    load_matrices(b[1], at + 4 * kChunk);
    add_step<0>(sums, weights, b[0][0], b[0][1]);
    add_step<1>(sums, weights, b[0][2], b[0][3]);
    add_step<2>(sums, weights, b[1][0], b[1][1]);
    add_step<3>(sums, weights, b[1][2], b[1][3]);
  }
  // Adds a warp's sums of a row tile to the block's sums and resets them to 0.
  __device__ void flush(Sums& sums, int row) const {
    int* to = block_sums + row * kRows + lane / 4;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int token = lane % 4 * 2 + c % 2;
      const int sum = sums[0][c] + sums[1][c];
      sums[0][c] = sums[1][c] = 0;
      if (kTokens == 1 && c % 2 == 1) continue;
      if (token < tokens) atomicAdd(to + token * stream.sums_pitch + 8 * (c / 2), sum);
    }
  }
  // Multiplies all tiles of a warp; fill_ring() has requested the first `requested`. lane_tokens: address of this
  // lane's row of the first matrix of tokens, at the first column.
  __device__ void multiply(const Stretch& own, int requested, int row, int until_next, unsigned lane_tokens) const {
    const int slot_bytes = stream.slot_tiles * kTileBytes;
    const auto* weights_at = reinterpret_cast<const uint4*>(ring()) + lane;
    const bool refills = stream.slots * stream.slot_tiles < own.count;  // slots are used more than once
    unsigned column_at = lane_tokens + (stream.column_tiles - until_next) * kColumns;
    Sums sums = {};
    int slot = 0;
    unsigned parity = 0;
#pragma unroll 1
    for (int left = own.count; left > 0; left -= stream.slot_tiles) {
      const uint4* from = weights_at + slot * (slot_bytes / 16);
      const int count = min(left, stream.slot_tiles);
      hopper::wait(barriers() + slot * 8, parity);
      LaneTile<W> weights;
      if constexpr (kReadsAhead) weights = LaneTile<W>::at(from);
#pragma unroll 2
      for (int i = 0; i < count; ++i) {
        if constexpr (kReadsAhead) {
          const LaneTile<W> now = weights;
          weights = LaneTile<W>::at(from + (i + 1) * kTileStride);  // beyond the last tile, reads what is not used
          add(sums, now, column_at);
        } else {
          add(sums, LaneTile<W>::at(from + i * kTileStride), column_at);
        }
        column_at += kColumns;
        if (--until_next == 0) {
          flush(sums, row);
          ++row;
          until_next = stream.column_tiles;
          column_at = lane_tokens;
        }
      }
      if (refills) {
        __syncwarp();  // all lanes have read the slot
        if (lane == 0 && requested < own.count) request_slot(own, requested, slot);
        requested += stream.slot_tiles;
      }
      if (++slot == stream.slots) {
        slot = 0;
        parity ^= 1U;
      }
    }
    if (until_next != stream.column_tiles) flush(sums, row);
  }

  // --- results ---

  // A row of y from some token on, and the terms of its epilogue.
  struct Target {
    std::byte* y = nullptr;  // null: none
    const std::byte* residual = nullptr;
    const float* bias = nullptr;
    std::int64_t y_step = 0, residual_step = 0;  // bytes to the next token of this thread
    RowTerms row = {1.0F, -0.0F};                // -0: adding it changes nothing
    DType dtype = DType::f32;
    bool squared_relu = false;
  };
  // A token's scale, by which its sums are divided.
  struct TokenTerms {
    float scale, reciprocal;
  };
  static __device__ TokenTerms terms_of(float scale) { return {scale, quick_reciprocal(scale)}; }
  // row: within the block.
  [[nodiscard]] __device__ Target target(int token, int row, int token_step) const {
    const int tile = first_row + row / kRows;
    int i = 0;
    while (i + 1 < job.count && tile >= job.matrices[i + 1].first_tile) ++i;
    const MatrixJob& matrix = job.matrices[i];
    const int n = (tile - matrix.first_tile) * kRows + row % kRows;
    if (n >= matrix.n) return {};
    Target to;
    to.y = y_at(matrix, token, n);
    to.row.scale = matrix.scales[matrix.one_scale ? 0 : n];
    to.dtype = matrix.y_dtype;
    to.squared_relu = matrix.squared_relu;
    if (matrix.bias != nullptr) to.bias = matrix.bias + n;
    if (matrix.residual != nullptr) to.residual = residual_at(matrix, token, n);
    if constexpr (kTokens > 1) {
      to.y_step = token_step * matrix.y_stride * y_bytes(matrix.y_dtype);
      to.residual_step = token_step * matrix.residual_stride * y_bytes(matrix.y_dtype);
    }
    return to;
  }
  // Reads what the kernels before may have written: the bias, and the first token's residual, which it returns.
  static __device__ float complete(Target& to) {
    if (to.bias != nullptr) to.row.bias = *to.bias;
    return to.residual != nullptr ? load_as(to.dtype, to.residual) : -0.0F;
  }
  static __device__ void finish(const Target& to, const TokenTerms& token, int sum, float residual) {
    if (to.dtype == DType::i32) {
      *reinterpret_cast<std::int32_t*>(to.y) = W::dot_of(sum);
      return;
    }
    const float t = Quotient{token.scale, token.reciprocal}.of(W::dot_of(sum));
    store_as(to.dtype, to.y, __fadd_rn(activated(true, to.squared_relu, to.row, t), residual));
  }

  // --- the whole ---

  __device__ void run() const {
    let_next_start();
    const long long begin = clock64();
    const Stretch own = stretch();
    fetch_parameters();
    while (clock64() - begin < stream.pause) __nanosleep(20);
    int requested = 0;
    if (lane == 0) requested = fill_ring(own);
    const unsigned base = shared_address(shared), token_barrier = base + stream.token_barrier_at;
    if (kTokens > 1 && stream.bulk && thread == 0) {
      hopper::barrier_init(token_barrier, 1);
      hopper::barrier_init_done();
    }
    // Everything that needs no tokens is done before the wait for the kernel before.
#pragma unroll 1
    for (int i = thread; i < tokens * stream.sums_pitch; i += threads) block_sums[i] = 0;
    // A thread finishes one row. If there are fewer rows than threads, several threads share the tokens of a row.
    const bool few = kTokens > 1 && rows > 0 && rows < threads;
    const int token_step = few ? threads / rows : 1;
    int row_done = thread, first_token = 0;
    if (few) {
      first_token = thread / rows;
      row_done -= first_token * rows;
      if (first_token >= min(token_step, tokens)) row_done = rows;  // no tokens left for this thread
    }
    Target to = row_done < rows ? target(first_token, row_done, token_step) : Target{};
    const int token_row = min(lane % 8, tokens - 1);
    const unsigned lane_tokens = opaque(base + stream.tokens_at + token_row * stream.token_pitch + lane / 8 * kChunk);
    const int row = row_of(own.first), until_next = opaque(stream.column_tiles * (row + 1) - own.first);
    __syncwarp();                      // barriers are initialized
    if (kTokens > 1) __syncthreads();  // the tokens' barrier as well
    if (kTokens > 1 && stream.bulk && thread == 0) hopper::arrive_and_expect(token_barrier, tokens * stream.tokens.k);

    float scale = 1.0F;
    auto* const terms = reinterpret_cast<TokenTerms*>(shared + stream.terms_at);
    if constexpr (kQuantizes) {
      const auto* x = opaque(first_vector<X>(stream.tokens, team(), 0));
      wait_for_previous();
      const bool reports = !stream.tokens.saturate && blockIdx.x == 0;
      auto* maxima = reinterpret_cast<unsigned*>(shared + stream.maxima_at);
      scale = quantize_token<X>(stream.tokens, team(), 0, x, reports, maxima, shared + stream.tokens_at);
    } else {
      wait_for_previous();
      copy_tokens_in();
      const bool scaled = stream.tokens.scales != nullptr;
      if (kTokens == 1 && scaled) scale = stream.tokens.scales[0];
      if (kTokens > 1 && thread < tokens) terms[thread] = terms_of(scaled ? stream.tokens.scales[thread] : 1.0F);
      if (blockIdx.x == 0 && thread < tokens && scaled)
        check_scale(stream.tokens.report, stream.tokens.scales[thread], thread);
    }
    float residual = to.y != nullptr ? complete(to) : 0.0F;
    Sm80::wait_for_copies();
    __syncthreads();
    if (kTokens > 1 && stream.bulk) hopper::wait(token_barrier, 0);
    multiply(own, requested, row, until_next, lane_tokens);
    __syncthreads();
    while (row_done < rows) {
      if (to.y != nullptr) {
        if constexpr (kTokens == 1) {
          finish(to, terms_of(scale), block_sums[row_done], residual);
        } else {
#pragma unroll 1
          for (int token = first_token; token < tokens; token += token_step) {
            if (to.residual != nullptr && token > first_token) residual = load_as(to.dtype, to.residual);
            finish(to, terms[token], block_sums[token * stream.sums_pitch + row_done], residual);
            to.y += to.y_step;
            to.residual += to.residual_step;
          }
        }
      }
      if (few) break;
      row_done += threads;
      if (row_done >= rows) break;
      to = target(0, row_done, 1);
      if (to.y != nullptr) residual = complete(to);
    }
  }
};

template <class W, class X, int kTokens>
__global__ void __launch_bounds__(kWarp* kStreamWarps, 2) stream_linear(const __grid_constant__ StreamJob job) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  StreamBlock<W, X, kTokens>(job).run();
#endif
}

}  // namespace
}  // namespace tern::linear
