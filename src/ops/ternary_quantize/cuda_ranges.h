// Ranges that fit in registers: one read of x gives scales and codes. A warp has one range or several, or a block has
// one. For .cu files only.
#pragma once

#include <algorithm>

#include "ops/ternary_quantize/cuda_quads.h"

namespace tern::ternary_quantize {
namespace {

// Where ranges lie. `outer` times `inner` of them: rows of groups, or one row of all ranges where their steps are
// equal.
template <class E>
struct Job {
  const Raw<E>* x;
  std::uint8_t* codes;
  float* scales;
  const float* given;  // null: computed
  std::int64_t given_step;
  cuda::Report report;
  std::int64_t outer, x_outer, codes_outer, index_outer;  // steps: elements, bytes, row-major elements
  std::int64_t inner, x_inner, codes_inner;
  std::int64_t len, last_len;  // the last of each `inner` may be short
  double inverse;              // 1 / len where len is a power of two, else 0
  bool vector;                 // quads may be loaded as one
  bool saturates;
  bool writes_codes;  // false where ranges share bytes
  bool packs;         // four codes a byte; else i8
  bool words;         // quads of i8 codes may be stored as one
};

// Lengths inside ranges that fit in registers are small.
__device__ inline int clamped(std::int64_t v) { return static_cast<int>(v < 0 ? 0 : v > 1 << 30 ? 1 << 30 : v); }

// The scale of a range from its statistics, or the given one, which is checked.
template <class E, int kRule>
__device__ Math<E> first_scale(const Job<E>& job, const Stat<E>& stat, std::int64_t range, std::int64_t n,
                               bool reports) {
  if constexpr (kRule == kInt2)
    if (job.given != nullptr) {
      const float s = job.given[range * job.given_step];
      if (reports && !(s > 0 && cuda::finite(s))) job.report(cuda::kInvalidScale, range * job.given_step);
      return s;
    }
  return scale_of<E, kRule>(stat, n, n == job.len ? job.inverse : 0.0);
}

template <class E>
__device__ void store_scale(const Job<E>& job, std::int64_t range, float stored) {
  job.scales[range] = stored;
  if constexpr (sizeof(Math<E>) == 8)
    if (job.given == nullptr && !cuda::finite(stored)) job.report(cuda::kScaleTooLarge, range);
}

// Reports the lane's first value that is not finite; index_of(j) is where quad j begins.
template <class E, int kQuads, class IndexOf>
__device__ void report_bad(const Job<E>& job, const Words<E>* q, IndexOf index_of) {
  std::int64_t lowest = -1;
#pragma unroll
  for (int j = kQuads - 1; j >= 0; --j)
    if (const int e = first_bad<E>(q[j]); e >= 0) lowest = index_of(j) + e;
  if (lowest >= 0) job.report(cuda::kNonFinite, lowest);
}

// Blocks of 256 threads that share a multiprocessor. 3 leave 80 registers a thread and have 96 KB of f32 on their way;
// f64 holds twice the words, the others half, and what the rounds of kMse keep leaves room for 2.
template <class E, int kRule>
constexpr int kBlocksPerSm = sizeof(Raw<E>) == 8 || kRule == kMse ? 2
                             : sizeof(Raw<E>) == 4                ? 3
                                                                  : 4;

// ---- ranges of at most 1,024 elements ----
//
// A warp holds 8 quads a lane. A range has `width` lanes (a power of two) and kQuads quads of each; the warp has
// 32/width ranges side by side, and 8/kQuads such units one after the other:
//
//   len 128: width 32, kQuads 1           len 32: width 8, kQuads 1
//     unit 0 [ range 0 .............. ]     unit 0 [ r0 ][ r1 ][ r2 ][ r3 ]
//     unit 1 [ range 1 .............. ]     unit 1 [ r4 ][ r5 ][ r6 ][ r7 ]
template <class E, int kRule, int kQuads>
__global__ void __launch_bounds__(256, kBlocksPerSm<E, kRule>)
    short_ranges(const Job<E> job, int width_log2, std::int64_t tiles_per_outer) {
  constexpr int kUnits = kHeld / kQuads;
  constexpr int kFirst = kRule == kMse ? kAbsmean : kRule;
  const int lane = static_cast<int>(threadIdx.x % 32), width = 1 << width_log2, per_unit = 32 >> width_log2;
  const int quad = lane & (width - 1);
  std::int64_t tile = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32, outer = 0;
  if (job.outer > 1) {
    outer = tile / tiles_per_outer;
    tile -= outer * tiles_per_outer;
  }
  if (outer >= job.outer || tile >= tiles_per_outer) return;
  const std::int64_t first = tile * (per_unit * kUnits) + (lane >> width_log2);
  const int left = clamped(job.inner - first), len = static_cast<int>(job.len), last = static_cast<int>(job.last_len);
  const auto length = [&](int u) { return u * per_unit < left ? (u * per_unit + 1 == left ? last : len) : 0; };
  const auto valid = [&](int u, int j) { return length(u) - 4 * (quad + 32 * j); };

  Words<E> q[kHeld];
  const std::int64_t step = per_unit * job.x_inner;
  const Raw<E>* x = job.x + outer * job.x_outer + first * job.x_inner + 4 * quad;
  if (job.vector) {
#pragma unroll
    for (int u = 0; u < kUnits; ++u, x += step)
#pragma unroll
      for (int j = 0; j < kQuads; ++j) q[u * kQuads + j] = load_whole<E>(x + 128 * j, valid(u, j) > 0);
  } else {
#pragma unroll
    for (int u = 0; u < kUnits; ++u, x += step)
#pragma unroll
      for (int j = 0; j < kQuads; ++j) q[u * kQuads + j] = load_some<E>(x + 128 * j, valid(u, j));
  }

  Stat<E> stat[kUnits];
  bool good = true;
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    stat[u] = measure<E, kFirst, kQuads>(q + u * kQuads);
    good = good && all_finite<E, kFirst>(stat[u]);
  }
  if (!good) {
    if (job.saturates) {
#pragma unroll
      for (int j = 0; j < kHeld; ++j) saturate<E>(q[j]);
#pragma unroll
      for (int u = 0; u < kUnits; ++u) stat[u] = measure<E, kFirst, kQuads>(q + u * kQuads);
    } else {
      report_bad<E, kHeld>(job, q, [&](int j) {
        return outer * job.index_outer + (first + j / kQuads * per_unit) * job.len + 4 * (quad + 32 * (j % kQuads));
      });
    }
  }
  __syncwarp();

  std::uint8_t* codes = job.codes + outer * job.codes_outer + first * job.codes_inner;
  const std::int64_t codes_step = per_unit * job.codes_inner;
#pragma unroll
  for (int u = 0; u < kUnits; ++u, codes += codes_step) {
    fold_lanes<E, kFirst>(stat[u], width);
    const std::int64_t range = outer * job.inner + first + u * per_unit;
    const bool leads = quad == 0 && length(u) > 0;
    Math<E> s = length(u) > 0 ? first_scale<E, kRule>(job, stat[u], range, length(u), leads) : Math<E>{1};
    if constexpr (kRule == kMse) {
      bool moves = length(u) > 0;
      for (int round = 1; round <= kMaxMseRounds && __any_sync(kAllLanes, moves); ++round) {
        Stat<E> above = measure<E, kMse, kQuads>(q + u * kQuads, half_of(s));
        fold_lanes<E, kMse>(above, width);
        const Math<E> next = above.count > 0 ? mean_of<E>(above.sum, above.count) : s;
        moves = moves && next != s;
        if (moves) s = next;
      }
    }
    const float stored = stored_scale<E>(s);
    if (leads) store_scale<E>(job, range, stored);
    if (!job.writes_codes) continue;
    const Coder<E, kRule == kInt2> coder(stored);
#pragma unroll
    for (int j = 0; j < kQuads; ++j)
      coder.store(q[u * kQuads + j], codes, quad + 32 * j, valid(u, j), job.packs, job.words);
  }
}

// ---- ranges of 1,025 elements to as many as a block can hold ----

// A thread has 64 registers in a block of 1,024, of which f64 would take all for its elements.
template <class E>
constexpr int kMaxWarps = sizeof(Raw<E>) == 8 ? 16 : 32;

// What all warps of a block know of the range, folded in the contract's order. Two places to write in turn, so that one
// barrier is enough.
template <class E, int kRule>
__device__ Stat<E> fold_warps(const Stat<E>& stat, Stat<E> (&shared)[2][32], int turn) {
  const unsigned lane = threadIdx.x % 32;
  if (lane == 0) shared[turn % 2][threadIdx.x / 32] = stat;
  __syncthreads();
  Stat<E> all;
  if (lane < blockDim.x / 32) all = shared[turn % 2][lane];
  fold_blocks<E, kRule>(all);
  return all;
}

// A block has one range, a warp one block of its sum.
template <class E, int kRule>
__global__ void __launch_bounds__(32 * kMaxWarps<E>) block_ranges(const Job<E> job) {
  constexpr int kFirst = kRule == kMse ? kAbsmean : kRule;
  __shared__ Stat<E> shared[2][32];
  const std::int64_t range = blockIdx.x, outer = job.outer > 1 ? range / job.inner : 0;
  const std::int64_t in_row = range - outer * job.inner;
  const int n = static_cast<int>(in_row + 1 == job.inner ? job.last_len : job.len);
  const int quad = static_cast<int>(threadIdx.x / 32 * 256 + threadIdx.x % 32);
  const auto valid = [&](int j) { return n - 4 * (quad + 32 * j); };

  Words<E> q[kHeld];
  const Raw<E>* x = job.x + outer * job.x_outer + in_row * job.x_inner + 4 * quad;
  if (job.vector) {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) q[j] = load_whole<E>(x + 128 * j, valid(j) > 0);
  } else {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) q[j] = load_some<E>(x + 128 * j, valid(j));
  }

  Stat<E> stat = measure<E, kFirst, kHeld>(q);
  if (!all_finite<E, kFirst>(stat)) {
    if (job.saturates) {
#pragma unroll
      for (int j = 0; j < kHeld; ++j) saturate<E>(q[j]);
      stat = measure<E, kFirst, kHeld>(q);
    } else {
      report_bad<E, kHeld>(job, q,
                           [&](int j) { return outer * job.index_outer + in_row * job.len + 4 * (quad + 32 * j); });
    }
  }
  __syncwarp();
  fold_lanes<E, kFirst>(stat);
  stat = fold_warps<E, kFirst>(stat, shared, 0);
  Math<E> s = first_scale<E, kRule>(job, stat, range, n, threadIdx.x == 0);
  if constexpr (kRule == kMse)
    for (int round = 1; round <= kMaxMseRounds; ++round) {  // every thread has the same s
      Stat<E> above = measure<E, kMse, kHeld>(q, half_of(s));
      fold_lanes<E, kMse>(above);
      above = fold_warps<E, kMse>(above, shared, round);
      if (above.count == 0) break;
      const Math<E> next = mean_of<E>(above.sum, above.count);
      if (next == s) break;
      s = next;
    }
  const float stored = stored_scale<E>(s);
  if (threadIdx.x == 0) store_scale<E>(job, range, stored);
  if (!job.writes_codes) return;
  std::uint8_t* codes = job.codes + outer * job.codes_outer + in_row * job.codes_inner;
  const Coder<E, kRule == kInt2> coder(stored);
#pragma unroll
  for (int j = 0; j < kHeld; ++j) coder.store(q[j], codes, quad + 32 * j, valid(j), job.packs, job.words);
}

// ---- launches ----

// The fewest lanes and quads that hold a range; rare rules have only the two outer choices of quads.
template <class E, int kRule>
int launch_short(const Job<E>& job, cudaStream_t stream) {
  const int quads = static_cast<int>((job.len + 3) / 4);
  int width_log2 = 0;
  while (width_log2 < 5 && 1 << width_log2 < quads) ++width_log2;
  const auto go = [&]<int kQuads>() {
    const std::int64_t per_tile = (std::int64_t{32} >> width_log2) * (kHeld / kQuads);
    const std::int64_t tiles = (job.inner + per_tile - 1) / per_tile;
    const std::int64_t blocks = (job.outer * tiles + 7) / 8;
    short_ranges<E, kRule, kQuads><<<static_cast<unsigned>(blocks), 256, 0, stream>>>(job, width_log2, tiles);
    return static_cast<int>(cudaGetLastError());
  };
  if (quads <= 32) return go.template operator()<1>();
  if constexpr ((kRule == kAbsmean || kRule == kAbsmax) && sizeof(Raw<E>) < 8) {
    if (quads <= 64) return go.template operator()<2>();
    if (quads <= 128) return go.template operator()<4>();
  }
  return go.template operator()<8>();
}

template <class E, int kRule>
int launch_block(const Job<E>& job, cudaStream_t stream) {
  const auto threads = static_cast<unsigned>((job.len + 1023) / 1024 * 32);
  block_ranges<E, kRule><<<static_cast<unsigned>(job.outer * job.inner), threads, 0, stream>>>(job);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace
}  // namespace tern::ternary_quantize
