// Ranges that fit in registers: one read of x gives scales and codes. A warp takes one range or several, or a thread
// block takes one. For .cu files only.
#pragma once

#include <algorithm>

#include "ops/ternary_quantize/cuda_codes.h"

namespace tern::ternary_quantize {
namespace {

// Where the ranges are: `outer` times `inner` of them, as rows of groups, or as one row of all ranges if their strides
// are equal.
template <class E>
struct Job {
  const Raw<E>* x;
  std::uint8_t* codes;
  float* scales;
  const float* given;  // null: computed
  std::int64_t given_step;
  cuda::Report report;
  std::int64_t outer, x_outer, codes_outer, index_outer;  // strides: elements, bytes, row-major elements
  std::int64_t inner, x_inner, codes_inner;
  std::int64_t len, last_len;  // the last of each `inner` may be short
  double inverse;              // 1 / len where len is a power of two, else 0
  bool vector;                 // a quad may be loaded at once
  bool saturates;
  bool writes_codes;  // false where ranges share bytes
  bool packs;         // four codes a byte; else i8
  bool words;         // four bytes of codes may be stored as one word
};

// Clamps a length to [0, 2^30], which an int holds.
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

// Reports the first of a lane's values that is not finite. Reads them again, which is slow but happens only once. Quad
// i has valid(i) elements; bits(i, e) is element e, and index(i) is the index of its first element.
template <class E, class Valid, class BitsAt, class Index>
__device__ void report_bad(const Job<E>& job, int quads, Valid valid, BitsAt bits, Index index) {
#pragma unroll 1
  for (int i = 0; i < quads; ++i)
#pragma unroll 1
    for (int e = 0; e < min(valid(i), 4); ++e)
      if (!finite_bits<E>(bits(i, e) & ~kSign<E>)) {
        job.report(cuda::kNonFinite, index(i) + e);
        return;
      }
}

// The least number of 256-thread blocks that share a multiprocessor. With 3, a thread has 80 registers and 96 KB of f32
// are in flight.
template <class E, int kRule>
constexpr int kBlocksPerSm = sizeof(Raw<E>) == 8   ? (kRule == kMse ? 1 : 2)
                             : kRule == kMse       ? 2
                             : sizeof(Raw<E>) == 4 ? 3
                                                   : 4;
// The same for ranges of at most 1,024 elements. 16-bit types need more warps, because a warp's loads are half as long.
// 5 blocks leave a thread 48 registers, too few for the other rules. Turing has room for 1,024 threads.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kManyBlocks = 4;
#else
constexpr int kManyBlocks = 5;
#endif
template <class E, int kRule>
constexpr int kShortBlocksPerSm = sizeof(Raw<E>) == 2 && (kRule == kAbsmean || kRule == kAbsmax)
                                      ? kManyBlocks
                                      : kBlocksPerSm<E, kRule>;

// ---- ranges of at most 1,024 elements ----
//
// `width` lanes (a power of two) share a range, kQuads quads each. A unit is the 32/width ranges that a warp has side
// by side; a warp has kUnits units, one after the other:
//
//   len 128: width 32, kQuads 1           len 32: width 8, kQuads 1
//     unit 0 [ range 0 .............. ]     unit 0 [ r0 ][ r1 ][ r2 ][ r3 ]
//     unit 1 [ range 1 .............. ]     unit 1 [ r4 ][ r5 ][ r6 ][ r7 ]
//
// fold_units() folds the statistics of the units together; then width/kUnits lanes have the scale of a range. Addresses
// are sums of 32-bit products, which are cheap.
struct Tiling {
  int width_log2;
  int inner, len, last_len;
  unsigned tiles;                    // per row
  unsigned x_inner, x_unit, x_tile;  // strides in bytes
  unsigned codes_inner, codes_unit, codes_tile;
  unsigned all_tiles;
  bool dense;  // every lane has whole quads, and units are contiguous
  bool fits;   // no value above overflows its type

  template <class E>
  Tiling(const Job<E>& job, int lanes_log2, int units) {
    const std::int64_t per_unit = 32 >> lanes_log2, per_tile = per_unit * units, size = sizeof(Raw<E>);
    const std::int64_t count = (job.inner + per_tile - 1) / per_tile;
    constexpr std::int64_t kMax = 0x7FFFFFFF;
    fits = job.inner <= kMax - 1024 && job.outer * count <= kMax && per_tile * job.x_inner * size <= kMax &&
           per_tile * job.codes_inner <= kMax;
    width_log2 = lanes_log2;
    inner = static_cast<int>(job.inner);
    len = static_cast<int>(job.len);
    last_len = static_cast<int>(job.last_len);
    tiles = static_cast<unsigned>(count);
    all_tiles = static_cast<unsigned>(job.outer * count);
    dense = job.x_inner == job.len && job.len * per_unit * units == 4 * 32 * kHeld;
    x_inner = static_cast<unsigned>(job.x_inner * size);
    x_unit = static_cast<unsigned>(per_unit * job.x_inner * size);
    x_tile = static_cast<unsigned>(per_tile * job.x_inner * size);
    codes_inner = static_cast<unsigned>(job.codes_inner);
    codes_unit = static_cast<unsigned>(per_unit * job.codes_inner);
    codes_tile = static_cast<unsigned>(per_tile * job.codes_inner);
  }
};
__device__ inline std::uint64_t product(unsigned a, unsigned b) { return static_cast<std::uint64_t>(a) * b; }

// The statistics of a tile's ranges, folded as fold_units() does.
template <class E, int kRule, int kQuads, int kUnits>
__device__ Stat<E> measure_units(const Words<E> (&q)[kQuads * kUnits], int width) {
  if constexpr (kRule == kAbsmax && sizeof(Raw<E>) == 2 && kUnits > 1) {
    unsigned halves[kUnits];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) halves[u] = max_halves<E, kQuads>(q + u * kQuads);
    Stat<E> stat;
    stat.up = fold_halves<E>(halves, width);
    return stat;
  } else {
    Stat<E> stat[kUnits];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) stat[u] = measure<E, kRule, kQuads>(q + u * kQuads);
    return fold_units<E, kRule>(stat, width);
  }
}

template <class E, int kRule, int kQuads, int kUnits>
__device__ __forceinline__ void quantize_tile(const Job<E>& job, const Tiling& tiling, unsigned tile) {
  constexpr int kSlots = kQuads * kUnits, kFirst = kRule == kMse ? kAbsmean : kRule;
  constexpr int kUnitsLog2 = kUnits == 8 ? 3 : kUnits == 4 ? 2 : kUnits == 2 ? 1 : 0;
  const auto* x = reinterpret_cast<const unsigned char*>(job.x);
  unsigned outer = 0;  // values that depend on it are computed late, to save registers
  if (job.outer > 1) {
    outer = tile / tiling.tiles;
    tile -= outer * tiling.tiles;
    x += outer * job.x_outer * static_cast<std::int64_t>(sizeof(Raw<E>));
  }
  const int width_log2 = kQuads > 1 ? 5 : tiling.width_log2, width = 1 << width_log2, per_unit = 32 >> width_log2;
  const int lane = static_cast<int>(threadIdx.x % 32), quad = lane & (width - 1), side = lane >> width_log2;
  const int first = static_cast<int>(tile) * (per_unit * kUnits) + side;
  const int left = tiling.inner - first, len = tiling.len, last = tiling.last_len;
  const auto length = [&](int u) { return u * per_unit < left ? (u * per_unit + 1 == left ? last : len) : 0; };
  // Only the last unit of a lane may be shorter, so quad j of a lane is whole in the first has(j) units.
  const int units = (left + per_unit - 1) >> (5 - width_log2), ends = (units - 1) * per_unit + 1 == left ? 1 : 0;
  const auto has = [&](int j) {
    const int at = 4 * (quad + 32 * j);
    return at < last ? units : at < len ? units - ends : 0;
  };
  const auto valid = [&](int i) {
    if (kSlots > 1) return i / kQuads < has(i % kQuads) ? 4 : 0;
    return length(0) - 4 * quad;
  };
  x += product(tile, tiling.x_tile) + product(side, tiling.x_inner) + 4 * quad * sizeof(Raw<E>);
  const auto from = [&](int i) {
    return reinterpret_cast<const Raw<E>*>(x + product(i / kQuads, tiling.x_unit)) + 128 * (i % kQuads);
  };

  Words<E> q[kSlots];
  if (kSlots > 1 && tiling.dense && tile + 1 < tiling.tiles) {
#pragma unroll
    for (int i = 0; i < kSlots; ++i) q[i] = load_whole<E>(from(0) + 128 * i, true);
  } else if (kSlots > 1 || job.vector) {
#pragma unroll
    for (int i = 0; i < kSlots; ++i) q[i] = load_whole<E>(from(i), i / kQuads < has(i % kQuads));
  } else {
    q[0] = load_some<E>(from(0), valid(0));
  }

  Stat<E> mine;
  for (bool clean = false;; clean = true) {
    mine = measure_units<E, kFirst, kQuads, kUnits>(q, width);
    if (clean || __all_sync(kAllLanes, all_finite<E, kFirst>(mine))) break;
    if (!job.saturates) {
      report_bad<E>(
          job, kSlots, valid, [&](int i, int e) { return load_bits<E>(from(i) + e); },
          [&](int i) {
            return outer * job.index_outer + (first + i / kQuads * per_unit) * job.len + 4 * (quad + 32 * (i % kQuads));
          });
      break;
    }
#pragma unroll
    for (int i = 0; i < kSlots; ++i) saturate<E>(q[i]);
  }

  const int share_log2 = width_log2 - kUnitsLog2, unit = quad >> share_log2, n = length(unit);
  const auto lane_of = [&](int u) { return (lane & -width) + (u << share_log2); };
  const std::int64_t range = (job.outer > 1 ? outer * job.inner : 0) + first + unit * per_unit;
  const bool leads = n > 0 && lane == lane_of(unit);
  Math<E> s = n > 0 ? first_scale<E, kRule>(job, mine, range, n, leads) : Math<E>{1};
  if constexpr (kRule == kMse) {
    bool moves = n > 0;
    for (int round = 1; round <= kMaxMseRounds && __any_sync(kAllLanes, moves); ++round) {
      const Math<E> h = half_of(s);
      Stat<E> stat[kUnits];
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        stat[u] = measure<E, kMse, kQuads>(q + u * kQuads, __shfl_sync(kAllLanes, h, lane_of(u)));
      const Stat<E> above = fold_units<E, kMse>(stat, width);
      const Math<E> next = above.count > 0 ? mean_of<E>(above.sum, above.count) : s;
      moves = moves && next != s;
      if (moves) s = next;
    }
  }
  const float stored = stored_scale<E>(s);
  if (leads) store_scale<E>(job, range, stored);
  if (!job.writes_codes) return;

  const Coder<E, kRule == kInt2> coder(stored);
  unsigned codes[kSlots];
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const auto of_unit = kUnits == 1 ? coder : coder.of_lane(lane_of(u));
#pragma unroll
    for (int j = 0; j < kQuads; ++j) codes[u * kQuads + j] = of_unit(q[u * kQuads + j]);
  }
  std::uint8_t* to = job.codes + (job.outer > 1 ? outer * job.codes_outer : 0);
  to += product(tile, tiling.codes_tile) + product(side, tiling.codes_inner);
  store_quads<Coder<E, kRule == kInt2>>(codes, job.packs, job.words, [&](int i) {
    return Place{to + product(i / kQuads, tiling.codes_unit), quad + 32 * (i % kQuads), valid(i)};
  });
}

// For ranges of 8 lanes or more whose quads may be loaded at once: each lane has 8 quads in flight.
template <class E, int kRule, int kQuads>
__global__ void __launch_bounds__(256, kShortBlocksPerSm<E, kRule>)
    short_ranges(const Job<E> job, const Tiling tiling) {
  const unsigned tile = blockIdx.x * 8 + threadIdx.x / 32;
  if (tile < tiling.all_tiles) quantize_tile<E, kRule, kQuads, kHeld / kQuads>(job, tiling, tile);
}

// For other ranges of at most 128 elements, one quad per lane; many warps hide the latency that a lane does not.
template <class E, int kRule>
__global__ void __launch_bounds__(256) odd_ranges(const Job<E> job, const Tiling tiling) {
#pragma unroll 1
  for (unsigned tile = blockIdx.x * 8 + threadIdx.x / 32; tile < tiling.all_tiles; tile += gridDim.x * 8)
    quantize_tile<E, kRule, 1, 1>(job, tiling, tile);
}

// ---- ranges of up to as many elements as a block can hold ----

// In a block of 1,024 threads a thread has 64 registers; f64 elements alone would take all of them.
template <class E>
constexpr int kMaxWarps = sizeof(Raw<E>) == 8 ? 16 : 32;

// Folds the statistics of all warps of a block in the contract's order. `shared` has two buffers, used in turn, so that
// one barrier is enough.
template <class E, int kRule>
__device__ Stat<E> fold_warps(const Stat<E>& stat, Stat<E> (&shared)[2][32], int turn) {
  const int warps = static_cast<int>(blockDim.x / 32);
  if (threadIdx.x % 32 == 0) shared[turn % 2][threadIdx.x / 32] = stat;
  __syncthreads();
  Stat<E> all;  // +0 in lanes from `warps` up to a power of two; then all repeats
  const auto from = static_cast<int>(threadIdx.x % 32) & ((1 << (32 - __clz(warps - 1))) - 1);
  if (from < warps) all = shared[turn % 2][from];
  fold_blocks<E, kRule>(all, warps);
  return all;
}

// Blocks of a range's sum per warp. Sums of 16-bit values need more bytes in flight; a thread has 64 registers then
// too. Asked for 0 blocks per multiprocessor, the compiler chooses, and better than if asked for one.
template <class E, int kRule>
constexpr int kWarpBlocks = sizeof(Raw<E>) == 2 && kRule == kAbsmean ? 2 : 1;

// A thread block takes one range, a warp one block of its sum or two neighbouring blocks.
template <class E, int kRule>
__global__ void __launch_bounds__(32 * kMaxWarps<E> / kWarpBlocks<E, kRule>, kWarpBlocks<E, kRule> == 2 ? 2 : 0)
    block_ranges(const Job<E> job) {
  constexpr int kFirst = kRule == kMse ? kAbsmean : kRule, kBlocks = kWarpBlocks<E, kRule>, kQuads = kHeld * kBlocks;
  __shared__ Stat<E> shared[2][32];
  const std::int64_t range = blockIdx.x, outer = job.outer > 1 ? range / job.inner : 0;
  const std::int64_t in_row = range - outer * job.inner;
  const int n = static_cast<int>(in_row + 1 == job.inner ? job.last_len : job.len);
  const int quad = static_cast<int>(threadIdx.x / 32 * (32 * kQuads) + threadIdx.x % 32);
  const auto valid = [&](int j) { return n - 4 * (quad + 32 * j); };

  Words<E> q[kQuads];
  const Raw<E>* x = job.x + outer * job.x_outer + in_row * job.x_inner + 4 * quad;
  if (kBlocks > 1 && job.vector && valid(kQuads - 1) > 0) {  // true for almost every lane
#pragma unroll
    for (int j = 0; j < kQuads; ++j) q[j] = load_whole<E>(x + 128 * j, true);
  } else if (job.vector) {
#pragma unroll
    for (int j = 0; j < kQuads; ++j) q[j] = load_whole<E>(x + 128 * j, valid(j) > 0);
  } else {
#pragma unroll
    for (int j = 0; j < kQuads; ++j) q[j] = load_some<E>(x + 128 * j, valid(j));
  }

  Stat<E> of_blocks[kBlocks];
  for (bool clean = false;; clean = true) {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) of_blocks[b] = measure<E, kFirst, kHeld>(q + b * kHeld);
    if (clean || (all_finite<E, kFirst>(of_blocks[0]) && all_finite<E, kFirst>(of_blocks[kBlocks - 1]))) break;
    if (!job.saturates) {
      report_bad<E>(
          job, kQuads, valid, [&](int j, int e) { return load_bits<E>(x + 128 * j + e); },
          [&](int j) { return outer * job.index_outer + in_row * job.len + 4 * (quad + 32 * j); });
      break;
    }
#pragma unroll
    for (int j = 0; j < kQuads; ++j) saturate<E>(q[j]);
  }
  __syncwarp();
  const Stat<E> stat = fold_warps<E, kFirst>(fold_warp_blocks<E, kFirst>(of_blocks), shared, 0);
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
  unsigned of_quads[kQuads];
#pragma unroll
  for (int j = 0; j < kQuads; ++j) of_quads[j] = coder(q[j]);
  store_quads<Coder<E, kRule == kInt2>>(of_quads, job.packs, job.words, [&](int j) {
    return Place{codes, quad + 32 * j, valid(j)};
  });
}

// ---- launches ----

template <class E, int kRule>
int launch_block(const Job<E>& job, cudaStream_t stream) {
  constexpr int kLen = 1024 * kWarpBlocks<E, kRule>;
  const auto threads = static_cast<unsigned>((job.len + kLen - 1) / kLen * 32);
  block_ranges<E, kRule><<<static_cast<unsigned>(job.outer * job.inner), threads, 0, stream>>>(job);
  return static_cast<int>(cudaGetLastError());
}

// Launches with the fewest lanes and quads that hold a range; rare rules have only the smallest and the largest kQuads.
// Returns kNotLaunched if the ranges are too many or too far apart.
constexpr int kNotLaunched = -1;

template <class E, int kRule>
int launch_short(const Job<E>& job, int multiprocessors, cudaStream_t stream) {
  const int quads = static_cast<int>((job.len + 3) / 4);
  int width_log2 = 0;
  while (width_log2 < 5 && 1 << width_log2 < quads) ++width_log2;
  if (quads <= 32 && (!job.vector || width_log2 < 3)) {
    const Tiling tiling(job, width_log2, 1);
    if (!tiling.fits) return kNotLaunched;
    const int most = multiprocessors * 8 * 16;  // 8 blocks at a time, 16 times, so that they end together
    const auto blocks = std::min((tiling.all_tiles + 7) / 8, static_cast<unsigned>(most));
    odd_ranges<E, kRule><<<blocks, 256, 0, stream>>>(job, tiling);
    return static_cast<int>(cudaGetLastError());
  }
  if (!job.vector) return launch_block<E, kRule>(job, stream);
  const auto go = [&]<int kQuads>() {
    const Tiling tiling(job, width_log2, kHeld / kQuads);
    if (!tiling.fits) return kNotLaunched;
    const auto blocks = (tiling.all_tiles + 7) / 8;
    short_ranges<E, kRule, kQuads><<<blocks, 256, 0, stream>>>(job, tiling);
    return static_cast<int>(cudaGetLastError());
  };
  if (quads <= 32) return go.template operator()<1>();
  if constexpr ((kRule == kAbsmean || kRule == kAbsmax) && sizeof(Raw<E>) < 8) {
    if (quads <= 64) return go.template operator()<2>();
    if (quads <= 128) return go.template operator()<4>();
  }
  return go.template operator()<8>();
}

}  // namespace
}  // namespace tern::ternary_quantize
