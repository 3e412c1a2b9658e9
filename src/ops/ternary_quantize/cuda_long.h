// Ranges too long for registers: many thread blocks measure the pieces of a range, one folds them, and the pieces are
// read again for their codes. For .cu files only.
//
//   range   [ piece 0                        ][ piece 1          ...
//   piece   [ warp 0 ][ warp 1 ] ... [ warp 7 ]                        a thread block
//   warp    [ block ] x chunk, a power of two                          1,024 elements each
//
// So a warp's part and a piece are whole subtrees of the contract's sum.
#pragma once

#include "ops/ternary_quantize/cuda_ranges.h"

namespace tern::ternary_quantize {
namespace {

constexpr int kPieceWarps = 8;
constexpr int kMaxPieces = 8192;  // of a range: 1,024 threads fold 8 each

struct Piece {
  double sum;
  long long up;  // kMse: the count
  long long down;
};
struct State {
  double scale;
  int done;  // kMse: the scale no longer changes
};

// How ranges of len elements are split, and the workspace for it.
struct Split {
  std::int64_t chunk = 1;  // blocks per warp
  std::int64_t pieces = 1, ranges = 0;

  Split(std::int64_t len, std::int64_t total) : ranges(total) {
    const std::int64_t blocks = (len + 1023) / 1024;
    const auto split = [&] { pieces = (blocks + chunk * kPieceWarps - 1) / (chunk * kPieceWarps); };
    // Up to 16 blocks per warp while there are many pieces, so that there are fewer to fold.
    for (split(); pieces > kMaxPieces || (chunk < 16 && pieces * ranges > kMaxPieces); split()) chunk *= 2;
  }
  [[nodiscard]] std::size_t piece_bytes() const { return static_cast<std::size_t>(ranges * pieces) * sizeof(Piece); }
  [[nodiscard]] std::size_t bytes() const { return piece_bytes() + static_cast<std::size_t>(ranges) * sizeof(State); }
};

template <class E>
struct LongJob {
  Job<E> job;
  std::int64_t chunk, pieces;
  Piece* of_pieces;  // [ranges, pieces]
  State* states;     // [ranges]
  // For a tensor-wide range whose rows have gaps between them; wrap_k is 0 if they have none.
  std::int64_t wrap_k, wrap_stride;
};

// The range of this warp, and the warp's blocks of it.
template <class E>
struct Part {
  std::int64_t range, index, n, first_block, blocks;
  const Raw<E>* x;
  std::uint8_t* codes;

  __device__ explicit Part(const LongJob<E>& long_job) {
    const Job<E>& job = long_job.job;
    const auto pieces = static_cast<unsigned>(long_job.pieces);
    range = blockIdx.x / pieces;
    const unsigned piece = blockIdx.x % pieces;
    const std::int64_t outer = job.outer > 1 ? range / job.inner : 0, in_row = range - outer * job.inner;
    index = outer * job.index_outer + in_row * job.len;
    n = in_row + 1 == job.inner ? job.last_len : job.len;
    x = job.x + outer * job.x_outer + in_row * job.x_inner;
    codes = job.codes + outer * job.codes_outer + in_row * job.codes_inner;
    first_block = (static_cast<std::int64_t>(piece) * kPieceWarps + threadIdx.x / 32) * long_job.chunk;
    const std::int64_t rest = (n + 1023) / 1024 - first_block;
    blocks = rest < 0 ? 0 : rest < long_job.chunk ? rest : long_job.chunk;
  }
};

// Element i of the range.
template <class E>
__device__ Bits<E> element_bits(const LongJob<E>& long_job, const Part<E>& part, std::int64_t i) {
  const std::int64_t row = long_job.wrap_k == 0 ? 0 : i / long_job.wrap_k;
  return load_bits<E>(part.x + i + row * (long_job.wrap_stride - long_job.wrap_k));
}

// Loads this lane's quads of the block that starts at element `start`.
template <class E>
__device__ void load_block(const LongJob<E>& long_job, const Part<E>& part, std::int64_t start, Words<E> (&q)[kHeld]) {
  const std::int64_t left = part.n - start;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const Raw<E>* x = part.x + start + 4 * lane;
  if (long_job.job.vector && left >= 1024) {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) q[j] = load_whole<E>(x + 128 * j, true);
  } else if (long_job.wrap_k == 0) {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) q[j] = load_some<E>(x + 128 * j, clamped(left) - 4 * (lane + 32 * j));
  } else {
    Words<E> far[kHeld];  // rare: a loop over local memory is slow, but little code
#pragma unroll 1
    for (int j = 0; j < kHeld; ++j) {
      far[j] = Words<E>{};
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (const std::int64_t i = start + 4 * (lane + 32 * j) + e; i < part.n)
          set_bits<E>(far[j], e, element_bits(long_job, part, i));
    }
#pragma unroll
    for (int j = 0; j < kHeld; ++j) q[j] = far[j];
  }
}

// Sums block after block in adjacent pairs, like a binary counter: lane i holds the sum of 2^i blocks, if there is one.
class BlockSums {
 public:
  __device__ void add(double sum) {  // the same in all lanes
    int level = 0;
    for (; (count_ >> level & 1) != 0; ++level) sum = __dadd_rn(__shfl_sync(kAllLanes, mine_, level), sum);
    if (threadIdx.x % 32 == static_cast<unsigned>(level)) mine_ = sum;
    ++count_;
  }
  __device__ double total() const {
    double sum = 0;
    for (int level = 0; count_ >> level != 0; ++level) {
      const double part = __shfl_sync(kAllLanes, mine_, level);
      if ((count_ >> level & 1) != 0) sum = __dadd_rn(part, sum);
    }
    return sum;
  }

 private:
  double mine_ = 0;
  int count_ = 0;
};

// Measures pieces. kMse measures the values above half of the current scale, unless that scale no longer changes.
template <class E, int kRule>
__global__ void __launch_bounds__(32 * kPieceWarps, kBlocksPerSm<E, kRule>) measure_pieces(const LongJob<E> long_job) {
  const Job<E>& job = long_job.job;
  const Part<E> part(long_job);
  Math<E> h = 0;
  if constexpr (kRule == kMse) {
    if (long_job.states[part.range].done != 0) return;
    h = half_of(static_cast<Math<E>>(long_job.states[part.range].scale));
  }
  Stat<E> all;
  BlockSums sums;
  for (std::int64_t b = 0; b < part.blocks; ++b) {
    const std::int64_t start = (part.first_block + b) * 1024;
    Words<E> q[kHeld];
    load_block<E>(long_job, part, start, q);
    Stat<E> stat;
    // kMse measures finite values only, because its statistics cannot reveal a NaN, which is never above h. So it
    // saturates before it measures; if the op rejects instead, the first pass has checked the values.
    for (bool clean = kRule == kMse && !job.saturates;; clean = true) {
      if (clean || kRule != kMse) {
        stat = measure<E, kRule, kHeld>(q, h);
        if (clean || all_finite<E, kRule>(stat)) break;
        if (!job.saturates) {
          const int lane = static_cast<int>(threadIdx.x % 32);
          report_bad<E>(
              job, kHeld, [&](int j) { return clamped(part.n - start) - 4 * (lane + 32 * j); },
              [&](int j, int e) { return element_bits(long_job, part, start + 4 * (lane + 32 * j) + e); },
              [&](int j) { return part.index + start + 4 * (lane + 32 * j); });
          break;
        }
      }
#pragma unroll
      for (int j = 0; j < kHeld; ++j) saturate<E>(q[j]);
    }
    __syncwarp();
    if constexpr (kRule == kAbsmean || kRule == kMse) {
      Stat<E> sum_only{.sum = stat.sum};
      fold_lanes<E, kAbsmean>(sum_only);
      sums.add(sum_only.sum);
    }
    all.count += stat.count;
    all.up = max(all.up, stat.up);
    all.down = max(all.down, stat.down);
  }

  // Counts and maxima still differ by lane.
  __shared__ Stat<E> shared[kPieceWarps];
  if constexpr (kRule == kMse)
    for (int distance = 16; distance > 0; distance /= 2) all.count += __shfl_xor_sync(kAllLanes, all.count, distance);
  else if constexpr (kRule != kAbsmean)
    fold_lanes<E, kRule>(all);
  if constexpr (kRule == kAbsmean || kRule == kMse) all.sum = sums.total();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = all;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  all = Stat<E>{};
  if (threadIdx.x < kPieceWarps) all = shared[threadIdx.x];
  fold_blocks<E, kRule>(all, kPieceWarps);
  if (threadIdx.x == 0)
    long_job.of_pieces[blockIdx.x] = {all.sum, kRule == kMse ? static_cast<long long>(all.count) : all.up, all.down};
}

__device__ inline void merge(Piece& a, const Piece& b, bool counts) {
  a.sum = __dadd_rn(a.sum, b.sum);
  a.up = counts ? a.up + b.up : max(a.up, b.up);
  a.down = max(a.down, b.down);
}
__device__ inline void fold_warp(Piece& piece, bool counts) {
  for (int distance = 1; distance < 32; distance *= 2)
    merge(piece,
          {__shfl_xor_sync(kAllLanes, piece.sum, distance), __shfl_xor_sync(kAllLanes, piece.up, distance),
           __shfl_xor_sync(kAllLanes, piece.down, distance)},
          counts);
}

// Folds the pieces of a range and computes its scale. Only kMse has rounds after round 0. A thread takes 8 pieces, so
// that a thread, a warp and the block fold whole subtrees.
template <class E>
__global__ void __launch_bounds__(kMaxPieces / 8) fold_pieces(const LongJob<E> long_job, int rule, int round) {
  __shared__ Piece shared[32];
  const Job<E>& job = long_job.job;
  const std::int64_t range = blockIdx.x;
  State& state = long_job.states[range];
  if (round > 0 && state.done != 0) return;
  const bool counts = round > 0;
  Piece v[8];
  const Piece* pieces = long_job.of_pieces + range * long_job.pieces;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::int64_t at = static_cast<std::int64_t>(threadIdx.x) * 8 + i;
    v[i] = at < long_job.pieces ? pieces[at] : Piece{};
  }
#pragma unroll
  for (int distance = 1; distance < 8; distance *= 2)
#pragma unroll
    for (int i = 0; i < 8; i += 2 * distance) merge(v[i], v[i + distance], counts);
  fold_warp(v[0], counts);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v[0];
  __syncthreads();
  if (threadIdx.x >= 32) return;
  Piece all = threadIdx.x < blockDim.x / 32 ? shared[threadIdx.x] : Piece{};
  fold_warp(all, counts);
  if (threadIdx.x != 0) return;

  Math<E> s = 0;
  bool done = rule != kMse || round == kMaxMseRounds;
  if (round == 0) {
    Stat<E> stat;
    stat.sum = all.sum;
    stat.up = static_cast<SignedBits<E>>(all.up);
    stat.down = static_cast<SignedBits<E>>(all.down);
    const std::int64_t n = (range + 1) % job.inner == 0 ? job.last_len : job.len;
    if (rule == kInt2)
      s = first_scale<E, kInt2>(job, stat, range, n, true);
    else if (rule == kAbsmax)
      s = scale_of<E, kAbsmax>(stat, n, 0.0);
    else
      s = scale_of<E, kAbsmean>(stat, n, 0.0);
  } else {
    s = static_cast<Math<E>>(state.scale);
    const Math<E> next = all.up > 0 ? mean_of<E>(all.sum, all.up) : s;
    done = done || next == s;
    s = next;
  }
  state.scale = s;
  state.done = done ? 1 : 0;
  if (done) store_scale<E>(job, range, stored_scale<E>(s));
}

template <class E, bool kIsInt2>
__global__ void __launch_bounds__(32 * kPieceWarps, kBlocksPerSm<E, kAbsmax>) write_pieces(const LongJob<E> long_job) {
  const Job<E>& job = long_job.job;
  const Part<E> part(long_job);
  const Coder<E, kIsInt2> coder(job.scales[part.range]);
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (std::int64_t b = 0; b < part.blocks; ++b) {
    const std::int64_t start = (part.first_block + b) * 1024;
    Words<E> q[kHeld];
    load_block<E>(long_job, part, start, q);
    if (job.saturates)
#pragma unroll
      for (int j = 0; j < kHeld; ++j) saturate<E>(q[j]);
    std::uint8_t* to = part.codes + (job.packs ? start / 4 : start);
    const int left = clamped(part.n - start);
    unsigned codes[kHeld];
#pragma unroll
    for (int j = 0; j < kHeld; ++j) codes[j] = coder(q[j]);
    store_quads<Coder<E, kIsInt2>>(codes, job.packs, job.words && left >= 1024, [&](int j) {
      return Place{to, lane + 32 * j, left - 4 * (lane + 32 * j)};
    });
  }
}

template <class E, int kRule>
int launch_long(const Job<E>& job, const Split& split, std::byte* workspace, std::int64_t wrap_k,
                std::int64_t wrap_stride, cudaStream_t stream) {
  const LongJob<E> long_job{job,
                            split.chunk,
                            split.pieces,
                            reinterpret_cast<Piece*>(workspace),
                            reinterpret_cast<State*>(workspace + split.piece_bytes()),
                            wrap_k,
                            wrap_stride};
  constexpr int kFirst = kRule == kMse ? kAbsmean : kRule;
  const auto blocks = static_cast<unsigned>(split.ranges * split.pieces), ranges = static_cast<unsigned>(split.ranges);
  const auto fold_threads = static_cast<unsigned>((split.pieces + 255) / 256 * 32);
  measure_pieces<E, kFirst><<<blocks, 32 * kPieceWarps, 0, stream>>>(long_job);
  fold_pieces<E><<<ranges, fold_threads, 0, stream>>>(long_job, kRule, 0);
  if constexpr (kRule == kMse)
    for (int round = 1; round <= kMaxMseRounds; ++round) {
      measure_pieces<E, kMse><<<blocks, 32 * kPieceWarps, 0, stream>>>(long_job);
      fold_pieces<E><<<ranges, fold_threads, 0, stream>>>(long_job, kRule, round);
    }
  if (job.writes_codes) write_pieces<E, kRule == kInt2><<<blocks, 32 * kPieceWarps, 0, stream>>>(long_job);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace
}  // namespace tern::ternary_quantize
