// The kernel of linear by mma.sync: exact w2a8 for one token to some dozens. For .cu files only.
//
// Weights W go from memory straight into registers, where a shift and a mask make them operands; tokens are in shared
// memory. A warp takes kRowTiles tiles of 16 rows, of these every split-th column tile, and has kDepth column tiles in
// flight. A block has row_warps * split warps, and goes on to further groups of rows where there are fewer blocks than
// groups.
//
//     group of rows     column tile   0   1   2   3   4   5  ...           split = 3, row_warps = 2
//       kRowTiles tiles    warp       0   1   2   0   1   2  ...   sums of warps 0, 1, 2 meet in shared memory
//       kRowTiles tiles    warp       3   4   5   3   4   5  ...   sums of warps 3, 4, 5
#pragma once

#include <type_traits>

#include "ops/linear/cuda_job.h"
#include "ops/linear/cuda_tokens.h"

namespace tern::linear {
namespace {

struct MmaJob {
  Job job;
  Tokens tokens;
  std::int64_t first_token;  // of the grid
  std::int32_t row_warps;
  std::int32_t split;
  std::int32_t groups;          // of rows: row_warps * kRowTiles row tiles each
  std::int32_t batches;         // of a warp: kDepth column tiles each
  std::int32_t chunk_batches;   // batches whose tokens are in shared memory at a time
  std::int32_t chunk_columns;   // column tiles of those
  std::int32_t chunk_bytes;     // of one of two buffers
  std::int32_t tokens_at;       // offset in shared memory
  std::int32_t tokens_of_pass;  // of a pass of the epilogue: 8, or m if that is less
};

// Shared memory: scales of 64 tokens with their reciprocals, maxima (a word per warp), two buffers of partial sums,
// tokens.
constexpr int kMaximaAt = 512, kPartialsAt = 640;
// Words from token to token of the partial sums; rows g and tokens 2t are in different banks.
constexpr int mma_pitch(int row_tiles) { return 16 * row_tiles + 4; }

template <class W, class Isa, class X, int kTokenTiles, int kRowTiles, int kDepth>
struct MmaBlock {
  static constexpr int kRows = 16 * kRowTiles, kPitch = mma_pitch(kRowTiles);
  static constexpr int kBlockTokens = 8 * kTokenTiles;
  // Separate chains of sums, so that fewer instructions wait for each other.
  static constexpr int kChains = kRowTiles * kTokenTiles == 1 ? 2 : 1;
  static constexpr bool kQuantizes = !std::is_same_v<X, Codes>;

  struct Weights {
    LaneTile<W> tile[kRowTiles];
  };
  static constexpr int kTileStride = LaneTile<W>::kStride;
  using Sums = int[kChains][kRowTiles][kTokenTiles][4];

  // What a thread needs for the epilogue of the row that it writes.
  struct Terms {
    RowTerms row;
    float residual = 0;  // of the thread's first token
  };

  const MmaJob& mma;
  const Job& job;
  std::byte* shared;
  int lane, k_warp, row_warp;
  std::int64_t first_token;
  int tokens;            // of the block
  unsigned lane_tokens;  // shared address of this lane's row of the first matrix of tokens

  __device__ explicit MmaBlock(const MmaJob& all)
      : mma(all), job(all.job), shared(launched_shared()), lane(static_cast<int>(threadIdx.x)) {
    k_warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.y), 0);
    row_warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.z), 0);
    first_token = kQuantizes ? 0 : mma.first_token + static_cast<std::int64_t>(blockIdx.y) * kBlockTokens;
    tokens = kQuantizes ? 1 : static_cast<int>(min(job.m - first_token, static_cast<std::int64_t>(kBlockTokens)));
    // Sums of tokens beyond the last are not stored. With one tile of tokens these have no memory; the last token is
    // read instead.
    const int row = kTokenTiles == 1 ? min(lane % 8, tokens - 1) : lane % 8;
    lane_tokens = shared_address(shared + mma.tokens_at) + row * token_pitch() + ((lane / 8) ^ row) * kChunk;
  }

  [[nodiscard]] __device__ int warp() const { return row_warp * mma.split + k_warp; }
  [[nodiscard]] __device__ Team team() const { return {warp() * kWarp + lane, mma.row_warps * mma.split * kWarp}; }
  __device__ void set_scale(int token, float s) const {
    reinterpret_cast<float2*>(shared)[token] = make_float2(s, __fdiv_rn(1.0F, s));
  }
  [[nodiscard]] __device__ Quotient quotient(int token) const {
    const float2 s = reinterpret_cast<const float2*>(shared)[token];
    return {s.x, s.y};
  }
  [[nodiscard]] __device__ int token_pitch() const { return mma.chunk_columns * static_cast<int>(TileMma::kColumns); }

  // --- weights ---

  __device__ void find_rows(const uint4* (&rows)[kRowTiles], int group) const {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {  // tiles beyond the last read it again; their sums are not stored
      const int tile = min((group * mma.row_warps + row_warp) * kRowTiles + r, job.row_tiles - 1);
      const MatrixJob& matrix = job.matrix_of(tile);
      rows[r] =
          matrix.tiles + static_cast<std::int64_t>(tile - matrix.first_tile) * job.column_tiles * kTileStride + lane;
    }
  }
  static __device__ void load(Weights& into, const uint4* const (&rows)[kRowTiles], int column, int limit) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int v = 0; v < W::kLoads; ++v)
        load_weights(into.tile[r].loads[v], rows[r] + column * kTileStride + v * kWarp, column < limit);
  }

  // --- tokens ---

  // Copies the tokens of a chunk of columns to one of the two buffers.
  __device__ void stage(int chunk, int buffer) const {
    constexpr int kColumns = static_cast<int>(TileMma::kColumns);
    const int column = chunk * mma.chunk_columns, columns = min(mma.chunk_columns, job.column_tiles - column);
    copy_tokens<Isa>(mma.tokens, team(), first_token, tokens, column * kColumns, columns * kColumns,
                     shared + mma.tokens_at + buffer * mma.chunk_bytes, token_pitch());
  }
  // Copies the first tokens. As a rule there is only one, and its addresses are computed beforehand. The loop in
  // place() keeps the compiler from moving loads of weights behind the copy.
  __device__ void stage_first(bool whole, Terms& terms, int group) const {
    if constexpr (kQuantizes) {
      const auto* x = opaque(first_vector<X>(mma.tokens, team(), first_token));
      const Place at = place(group);
      const bool reports = !mma.tokens.saturate && blockIdx.x == 0;
      auto* maxima = reinterpret_cast<unsigned*>(shared + kMaximaAt);
      const float s = quantize_token<X>(mma.tokens, team(), first_token, x, reports, maxima, shared + mma.tokens_at);
      if (team().thread == 0) set_scale(0, s);
      load_terms(terms, at);
    } else {
      TokenCopy copy(mma.tokens, team(), first_token, shared + mma.tokens_at);
      copy.from = opaque(copy.from);
      copy.left = opaque(copy.left);
      const Place at = place(group);
      if (tokens == 1 && whole)
        copy.template run<Isa>(mma.tokens, team());
      else
        stage(0, 0);
      load_terms(terms, at);
      set_scales();
    }
  }
  __device__ void set_scales() const {
#pragma unroll 1
    for (int i = team().thread; i < tokens; i += team().threads) {
      const float s = mma.tokens.scales != nullptr ? mma.tokens.scales[first_token + i] : 1.0F;
      if (blockIdx.x == 0) check_scale(mma.tokens.report, s, first_token + i);
      set_scale(i, s);
    }
  }

  // --- sums ---

  // Adds a step of a column tile to the sums of one tile of tokens.
  template <int kStep>
  static __device__ void add_step(Sums& sums, const Weights& weights, int t, unsigned b0, unsigned b1) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      unsigned a[4];
      weights.tile[r].operand(a, kStep);
      Isa::mma(sums[kStep % kChains][r][t], a, b0, b1);
    }
  }
  // Adds a column tile; at: lane_tokens at that column.
  __device__ void add(Sums& sums, const Weights& weights, unsigned at) const {
    constexpr unsigned kOther = 4 * kChunk;  // toggles the half of the chunks, whatever token % 8 is
    if constexpr (kTokenTiles == 1) {
      unsigned b[2][4];
      load_matrices(b[0], at);
      load_matrices(b[1], at ^ kOther);
      add_step<0>(sums, weights, 0, b[0][0], b[0][1]);
      add_step<1>(sums, weights, 0, b[0][2], b[0][3]);
      add_step<2>(sums, weights, 0, b[1][0], b[1][1]);
      add_step<3>(sums, weights, 0, b[1][2], b[1][3]);
    } else {
      unsigned b[4];
#pragma unroll
      for (int t = 0; t < kTokenTiles; ++t) {
        load_matrices(b, at + t * 8 * token_pitch());
        add_step<0>(sums, weights, t, b[0], b[1]);
        add_step<1>(sums, weights, t, b[2], b[3]);
      }
#pragma unroll
      for (int t = 0; t < kTokenTiles; ++t) {
        load_matrices(b, (at ^ kOther) + t * 8 * token_pitch());
        add_step<2>(sums, weights, t, b[0], b[1]);
        add_step<3>(sums, weights, t, b[2], b[3]);
      }
    }
  }

  // --- results ---

  // A thread writes row lane % kRows of its row warp, for every (split * kWarp / kRows)-th token from first_turn() on.
  [[nodiscard]] __device__ int row() const { return lane % kRows; }
  [[nodiscard]] __device__ int first_turn() const { return (k_warp * kWarp + lane) / kRows; }

  struct Place {
    int matrix, n;
    bool real;
  };
  [[nodiscard]] __device__ Place place(int group) const {
    const int tile = (group * mma.row_warps + row_warp) * kRowTiles + row() / 16;
    int i = 0;
    while (i + 1 < job.count && tile >= job.matrices[i + 1].first_tile) ++i;
    const int n = (tile - job.matrices[i].first_tile) * 16 + row() % 16;
    return {.matrix = i, .n = n, .real = tile < job.row_tiles && n < job.matrices[i].n};
  }
  __device__ void load_terms(Terms& terms, const Place& at) const {
    if (!at.real || first_turn() >= tokens) return;
    const MatrixJob& matrix = job.matrices[at.matrix];
    terms.row = row_terms(matrix, at.n);
    terms.residual = residual_of(matrix, first_token + first_turn(), at.n);
  }

  // Stores a group of rows, eight tokens at a time. parity: of the number of earlier passes; it chooses the buffer.
  __device__ void finish(const Sums& sums, const Terms& terms, const Place& place, int& parity) const {
    const int of_warp = mma.tokens_of_pass * kPitch;
#pragma unroll
    for (int t = 0; t < kTokenTiles; ++t) {
      const int here = min(tokens - 8 * t, 8);
      if (here <= 0) break;
      int* partials = reinterpret_cast<int*>(shared + kPartialsAt) + parity * mma.row_warps * mma.split * of_warp;
      parity ^= 1;  // the next pass need not wait until all have read this one
      int* into = partials + warp() * of_warp + lane / 4;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int token = lane % 4 * 2 + c % 2;
        if (token >= here) continue;
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
          int sum = sums[0][r][t][c];
          if constexpr (kChains == 2) sum += sums[1][r][t][c];
          into[token * kPitch + 16 * r + 8 * (c / 2)] = sum;
        }
      }
      __syncthreads();
      if (!place.real) continue;
      const MatrixJob& matrix = job.matrices[place.matrix];
      for (int token = first_turn(); token < here; token += mma.split * kWarp / kRows) {
        const int* from = partials + row_warp * mma.split * of_warp + token * kPitch + row();
        int sum = 0;
#pragma unroll 4
        for (int i = 0; i < mma.split; ++i) sum += from[i * of_warp];
        const std::int64_t m = first_token + 8 * t + token;
        if (matrix.y_dtype == DType::i32) {
          reinterpret_cast<std::int32_t*>(matrix.y)[m * matrix.y_stride + place.n] = W::dot_of(sum);
        } else {
          const float value = activated(matrix, terms.row, quotient(8 * t + token).of(W::dot_of(sum)));
          const bool first = t == 0 && token == first_turn();
          store_y(matrix, m, place.n, value, first ? terms.residual : residual_of(matrix, m, place.n));
        }
      }
    }
  }

  // --- the whole ---

  __device__ void run() const {
    const int columns = job.column_tiles, stride = static_cast<int>(gridDim.x);
    int group = static_cast<int>(blockIdx.x);
    const uint4* rows[kRowTiles];
    find_rows(rows, group);
    Weights held[kDepth] = {};
#pragma unroll
    for (int d = 0; d < kDepth; ++d) load(held[d], rows, k_warp + d * mma.split, columns);
    const bool whole = kQuantizes || mma.chunk_batches >= mma.batches;  // all tokens fit in shared memory
    Terms terms;
    stage_first(whole, terms, group);
    int parity = 0, buffer = 0;
    for (bool first = true;; first = false) {
      const int next_group = group + stride;
      Sums sums = {};
      for (int batch = 0, chunk = 0; batch < mma.batches; ++chunk) {
        if (first || !whole) {
          Isa::wait_for_copies();
          __syncthreads();
        }
        unsigned at = lane_tokens + (k_warp - chunk * mma.chunk_columns) * static_cast<int>(TileMma::kColumns);
        if (!whole) {
          at += buffer * mma.chunk_bytes;
          buffer ^= 1;
          const bool more = (chunk + 1) * mma.chunk_batches < mma.batches;
          if constexpr (!kQuantizes)
            if (more || next_group < mma.groups) stage(more ? chunk + 1 : 0, buffer);
        }
        for (const int end = min(batch + mma.chunk_batches, mma.batches); batch < end; ++batch) {
          const int split = opaque(mma.split);
          int column = k_warp + batch * kDepth * split, next = column + kDepth * split, limit = columns;
          unsigned column_at = at + batch * kDepth * split * static_cast<int>(TileMma::kColumns);
          if (batch + 1 == mma.batches) {
            next = k_warp;
            if (next_group < mma.groups)
              find_rows(rows, next_group);
            else
              limit = 0;
          }
#pragma unroll
          for (int d = 0; d < kDepth; ++d) {
            if (column < columns) add(sums, held[d], column_at);
            load(held[d], rows, next, limit);
            column += split;
            next += split;
            column_at += split * static_cast<int>(TileMma::kColumns);
          }
        }
      }
      finish(sums, terms, place(group), parity);
      if (next_group >= mma.groups) break;
      group = next_group;
      load_terms(terms, place(group));
    }
  }
};

// A kernel is empty where the compiled architecture does not have its instruction set.
template <class Isa>
constexpr bool kCompiled =
#ifdef __CUDA_ARCH__
    __CUDA_ARCH__ >= Isa::kArch;
#else
    true;
#endif

// The most warps of a block. loads: what a warp has in flight. With one tile of tokens two blocks fit a multiprocessor
// (72 or 96 registers a thread), so that the next kernel has room for its first weights.
constexpr int mma_max_warps(int token_tiles, int loads) {
  if (token_tiles > 2) return 8;
  if (token_tiles == 2) return 12;
  return loads <= 4 ? 14 : 10;
}

template <class W, class Isa, class X, int kTokenTiles, int kRowTiles, int kDepth>
__global__ void __launch_bounds__(kWarp* mma_max_warps(kTokenTiles, kRowTiles* kDepth* W::kLoads),
                                  kTokenTiles == 1 ? 2 : 1) mma_linear(const __grid_constant__ MmaJob mma) {
  if constexpr (kCompiled<Isa>) MmaBlock<W, Isa, X, kTokenTiles, kRowTiles, kDepth>(mma).run();
}

}  // namespace
}  // namespace tern::linear
