// Quads of elements in registers: how the CUDA kernels of ternary_quantize load and measure them. For .cu files only.
#pragma once

#include <type_traits>

#include "ops/cuda_words.h"
#include "ops/ternary_quantize/scale.h"
#include "ops/ternary_quantize/simd_table.h"

namespace tern::ternary_quantize {
namespace {

using cuda::Bf16;
using cuda::F16;
using cuda::F32;
using cuda::F64;

constexpr unsigned kAllLanes = 0xFFFFFFFFU;
constexpr int kHeld = 8;  // quads a lane holds: 1,024 elements a warp, a block of the contract's sums

template <class E>
using Raw = typename E::Raw;
template <class E>
using Math = typename E::Math;
template <class E>
using Bits = std::conditional_t<sizeof(Raw<E>) == 8, unsigned long long, unsigned>;
template <class E>
using SignedBits = std::conditional_t<sizeof(Raw<E>) == 8, long long, int>;

// A quad as the words it is loaded in.
template <class E>
struct Words {
  unsigned w[sizeof(Raw<E>)];
};

template <class E>
constexpr Bits<E> kSign = Bits<E>{1} << (8 * sizeof(Raw<E>) - 1);
// The bits of infinity; one less is the largest finite value.
template <class E>
constexpr Bits<E> kInfinity = 0x7F800000U;
template <>
constexpr Bits<F64> kInfinity<F64> = 0x7FF0000000000000ULL;
template <>
constexpr Bits<F16> kInfinity<F16> = 0x7C00U;
template <>
constexpr Bits<Bf16> kInfinity<Bf16> = 0x7F80U;

// ---- one element ----

template <class E>
__device__ Bits<E> bits_of(const Words<E>& q, int e) {
  if constexpr (sizeof(Raw<E>) == 8)
    return static_cast<unsigned long long>(q.w[2 * e + 1]) << 32 | q.w[2 * e];
  else if constexpr (sizeof(Raw<E>) == 4)
    return q.w[e];
  else
    return e % 2 == 0 ? q.w[e / 2] & 0xFFFFU : q.w[e / 2] >> 16;
}

template <class E>
__device__ void set_bits(Words<E>& q, int e, Bits<E> bits) {
  if constexpr (sizeof(Raw<E>) == 8) {
    q.w[2 * e] = static_cast<unsigned>(bits);
    q.w[2 * e + 1] = static_cast<unsigned>(bits >> 32);
  } else if constexpr (sizeof(Raw<E>) == 4) {
    q.w[e] = bits;
  } else {
    q.w[e / 2] = e % 2 == 0 ? (q.w[e / 2] & 0xFFFF0000U) | bits : (q.w[e / 2] & 0xFFFFU) | bits << 16;
  }
}

template <class E>
__device__ Math<E> math_of(Bits<E> bits) {
  if constexpr (sizeof(Raw<E>) == 8)
    return __longlong_as_double(static_cast<long long>(bits));
  else if constexpr (sizeof(Raw<E>) == 4)
    return __uint_as_float(bits);
  else
    return E::widen(static_cast<Raw<E>>(bits));
}

__device__ inline float abs_of(float v) { return fabsf(v); }
__device__ inline double abs_of(double v) { return fabs(v); }
__device__ inline float half_of(float v) { return __fmul_rn(v, 0.5F); }
__device__ inline double half_of(double v) { return __dmul_rn(v, 0.5); }

// ---- loads ----

// x is read once, so it need not stay in L1. Nothing writes it meanwhile, so the loads may be non-coherent.
__device__ inline void load_words(const void* x, unsigned (&w)[2]) {
  asm("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "l"(x));
}
__device__ inline void load_words(const void* x, unsigned (&w)[4]) {
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
      : "l"(x));
}
// Two loads share each sector: the second finds it in L1.
__device__ inline void load_words(const void* x, unsigned (&w)[8]) {
  asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "l"(x));
  asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4 + 16];" : "=r"(w[4]), "=r"(w[5]), "=r"(w[6]), "=r"(w[7]) : "l"(x));
}

template <class E>
__device__ Bits<E> load_bits(const Raw<E>* x) {
  if constexpr (sizeof(Raw<E>) == 8)
    return __ldg(reinterpret_cast<const unsigned long long*>(x));
  else if constexpr (sizeof(Raw<E>) == 4)
    return __ldg(reinterpret_cast<const unsigned*>(x));
  else
    return __ldg(reinterpret_cast<const unsigned short*>(x));
}

// The first `valid` elements, then +0.
template <class E>
__device__ Words<E> load_some(const Raw<E>* x, int valid) {
  Words<E> q{};
#pragma unroll
  for (int e = 0; e < 4; ++e)
    if (e < valid) set_bits<E>(q, e, load_bits<E>(x + e));
  return q;
}
template <class E>
__device__ Words<E> load_whole(const Raw<E>* x, bool present) {
  Words<E> q{};
  if (present) load_words(x, q.w);
  return q;
}

// ---- values that are not finite ----

template <class E>
__device__ bool finite_bits(Bits<E> magnitude) {
  return magnitude < kInfinity<E>;
}

// NaN becomes +0, an infinity the largest finite value of its sign. 16-bit values are handled two in a word; no sum of
// magnitudes carries from one into the other.
template <class E>
__device__ void saturate(Words<E>& q) {
  if constexpr (sizeof(Raw<E>) == 2) {
    constexpr unsigned kOnes = 0x10001U, kRoom = 0x8000U - kInfinity<E>;
#pragma unroll
    for (unsigned& w : q.w) {
      const unsigned magnitudes = w & 0x7FFFU * kOnes;
      const unsigned above = (magnitudes + (kRoom - 1) * kOnes) >> 15 & kOnes;  // 1 where NaN
      const unsigned from = (magnitudes + kRoom * kOnes) >> 15 & kOnes;         // also where infinite
      w = (w & ~(above * 0xFFFFU)) - (from ^ above);
    }
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const Bits<E> bits = bits_of<E>(q, e), magnitude = bits & ~kSign<E>;
      if (magnitude > kInfinity<E>) set_bits<E>(q, e, 0);
      if (magnitude == kInfinity<E>) set_bits<E>(q, e, (bits & kSign<E>) | (kInfinity<E> - 1));
    }
  }
}

// ---- statistics ----

// The statistics that a lane, a warp or a block has of its part of a range. Each rule uses some of the members; the
// others are never touched and cost nothing.
template <class E>
struct Stat {
  double sum = 0;  // of magnitudes, in kSumUnit; NaN, infinite or large after an element that is not finite
  int count = 0;   // of elements above a threshold
  // As bits, which order like magnitudes, with NaN above infinity. absmax: the largest |x|. int2: the largest of x and
  // 0.
  SignedBits<E> up = 0;
  SignedBits<E> down = 0;  // int2: the largest of -x and 0
};

// Hopper converts 16 numbers a cycle to double, slower than it reads 16-bit numbers. But the bits of a 16-bit number,
// moved to where a double has its exponent and fraction, are the same number times a power of two, denormals too:
//
//   bf16                  [s|eeeeeeee|fffffff]        double  [0|000eeeeeeee|fffffff 0 ... 0]   2^(127 - 1023) times
//   f16                  [s|eeeee|ffffffffff]                 [0|000000eeeee|ffffffffff 0 ...]  2^(15 - 1023) times
//
// So are sums: each is rounded like the true sum, or is exact in both scales. Stat::sum is in units of kSumUnit; an
// element that is not finite adds kSumBound or more.
template <class E>
constexpr double kSumUnit = 1;
template <>
constexpr double kSumUnit<Bf16> = 0x1p896;
template <>
constexpr double kSumUnit<F16> = 0x1p1008;
template <class E>
constexpr double kSumBound = std::is_same_v<E, F16> ? 0x1p-992 : 0x1p-768;

template <class E>
__device__ double wide_abs(const Words<E>& q, int e) {
  if constexpr (sizeof(Raw<E>) == 2) {
    constexpr int kShift = std::is_same_v<E, F16> ? 10 : 13;
    const unsigned w = q.w[e / 2], moved = e % 2 == 0 ? w << kShift : w >> (16 - kShift);
    return __hiloint2double(static_cast<int>(moved & 0x7FFFU << kShift), 0);
  } else {
    return static_cast<double>(abs_of(math_of<E>(bits_of<E>(q, e))));
  }
}

template <class E>
__device__ double quad_sum(const Words<E>& q) {
  return __dadd_rn(__dadd_rn(wide_abs<E>(q, 0), wide_abs<E>(q, 1)), __dadd_rn(wide_abs<E>(q, 2), wide_abs<E>(q, 3)));
}

template <class E>
__device__ double quad_sum_above(const Words<E>& q, Math<E> h, int& count) {
  double a[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const bool above = abs_of(math_of<E>(bits_of<E>(q, e))) > h;
    count += above ? 1 : 0;
    a[e] = above ? wide_abs<E>(q, e) : 0.0;
  }
  return __dadd_rn(__dadd_rn(a[0], a[1]), __dadd_rn(a[2], a[3]));
}

// Ampere has instructions for these, Turing has not. max_nan(): the larger number, or NaN with its sign clear.
// max_of_lanes(): the largest over all lanes.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
constexpr bool kHasMaxNan = true;
__device__ inline float max_nan(float a, float b) {
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}
__device__ inline int max_of_lanes(int v) { return __reduce_max_sync(kAllLanes, v); }
#else
constexpr bool kHasMaxNan = false;
__device__ inline float max_nan(float a, float) { return a; }
__device__ inline int max_of_lanes(int v) {
  for (int distance = 16; distance > 0; distance /= 2) v = max(v, __shfl_xor_sync(kAllLanes, v, distance));
  return v;
}
#endif

// The larger of each half of two words.
template <class E>
__device__ unsigned max_pair(unsigned a, unsigned b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 900
  unsigned c;
  if constexpr (std::is_same_v<E, F16>)
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
  else
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
  return c;
#else
  return __vmaxu2(a, b);  // one instruction on Hopper, a few on Turing
#endif
}

// The largest magnitude in the lower halves of the words of kQuads quads, and the largest in the upper halves.
template <class E, int kQuads>
__device__ unsigned max_halves(const Words<E>* q) {
  unsigned pair = max_pair<E>(q[0].w[0] & 0x7FFF7FFFU, q[0].w[1] & 0x7FFF7FFFU);
#pragma unroll
  for (int j = 1; j < kQuads; ++j)
    pair = max_pair<E>(max_pair<E>(pair, q[j].w[0] & 0x7FFF7FFFU), q[j].w[1] & 0x7FFF7FFFU);
  return pair;
}

// The largest magnitude of kQuads quads.
template <class E, int kQuads>
__device__ SignedBits<E> max_bits(const Words<E>* q) {
  if constexpr (sizeof(Raw<E>) == 2) {
    const unsigned pair = max_halves<E, kQuads>(q);
    return static_cast<int>(max(pair & 0xFFFFU, pair >> 16));
  } else if constexpr (sizeof(Raw<E>) == 4 && kHasMaxNan) {
    float top = 0;
#pragma unroll
    for (int j = 0; j < kQuads; ++j) {
      const auto at = [&](int e) { return fabsf(__uint_as_float(q[j].w[e])); };
      const float of_quad = max_nan(max_nan(at(0), at(1)), max_nan(at(2), at(3)));
      top = j == 0 ? of_quad : max_nan(top, of_quad);
    }
    return __float_as_int(top);
  } else {
    Bits<E> top = 0;
#pragma unroll
    for (int j = 0; j < kQuads; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) top = max(top, bits_of<E>(q[j], e) & ~kSign<E>);
    return static_cast<SignedBits<E>>(top);
  }
}

// The bits as a signed integer. Negative values have the highest bit set, so a maximum with 0 ignores them.
template <class E>
__device__ SignedBits<E> with_sign(Bits<E> bits) {
  if constexpr (sizeof(Raw<E>) == 2) return static_cast<short>(bits);
  return static_cast<SignedBits<E>>(bits);
}

// The statistics of a lane's quads. kMse sums the values above h. Only the last quads may be missing (+0).
template <class E, int kRule, int kQuads>
__device__ Stat<E> measure(const Words<E>* q, Math<E> h = 0) {
  Stat<E> stat;
  if constexpr (kRule == kAbsmax) stat.up = max_bits<E, kQuads>(q);
#pragma unroll
  for (int j = 0; j < kQuads; ++j) {
    if constexpr (kRule == kAbsmean || kRule == kMse) {  // no sum is -0, so the first need not be added to 0
      const double of_quad = kRule == kMse ? quad_sum_above<E>(q[j], h, stat.count) : quad_sum<E>(q[j]);
      stat.sum = j == 0 ? of_quad : __dadd_rn(stat.sum, of_quad);
    }
    if constexpr (kRule == kInt2 && sizeof(Raw<E>) == 4 && kHasMaxNan) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float v = __uint_as_float(q[j].w[e]);
        stat.up = __float_as_int(max_nan(__int_as_float(stat.up), v));
        stat.down = __float_as_int(max_nan(__int_as_float(stat.down), -v));
      }
    } else if constexpr (kRule == kInt2) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        stat.up = max(stat.up, with_sign<E>(bits_of<E>(q[j], e)));
        stat.down = max(stat.down, with_sign<E>(bits_of<E>(q[j], e) ^ kSign<E>));
      }
    }
  }
  return stat;
}

// a's part of the range comes before b's, though a sum of two is the same in either order.
template <class E, int kRule>
__device__ void merge(Stat<E>& a, const Stat<E>& b) {
  if constexpr (kRule == kAbsmean || kRule == kMse) a.sum = __dadd_rn(a.sum, b.sum);
  if constexpr (kRule == kMse) a.count += b.count;
  if constexpr (kRule == kAbsmax || kRule == kInt2) a.up = max(a.up, b.up);
  if constexpr (kRule == kInt2) a.down = max(a.down, b.down);
}

template <class E, int kRule>
__device__ Stat<E> exchanged(const Stat<E>& stat, int distance) {
  Stat<E> other;
  if constexpr (kRule == kAbsmean || kRule == kMse) other.sum = __shfl_xor_sync(kAllLanes, stat.sum, distance);
  if constexpr (kRule == kMse) other.count = __shfl_xor_sync(kAllLanes, stat.count, distance);
  if constexpr (kRule == kAbsmax || kRule == kInt2) other.up = __shfl_xor_sync(kAllLanes, stat.up, distance);
  if constexpr (kRule == kInt2) other.down = __shfl_xor_sync(kAllLanes, stat.down, distance);
  return other;
}

template <class E>
__device__ Stat<E> chosen(bool first, const Stat<E>& a, const Stat<E>& b) {
  return {.sum = first ? a.sum : b.sum,
          .count = first ? a.count : b.count,
          .up = first ? a.up : b.up,
          .down = first ? a.down : b.down};
}

// Folds the lanes: lane l += lane l + 16, 8, 4, 2, 1. All lanes get the result.
template <class E, int kRule>
__device__ void fold_lanes(Stat<E>& stat) {
  if constexpr (kRule == kAbsmax && sizeof(Raw<E>) <= 4) {
    stat.up = max_of_lanes(stat.up);
  } else {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) merge<E, kRule>(stat, exchanged<E, kRule>(stat, distance));
  }
}

// The same for kUnits ranges of `width` lanes each (lanes from `width` on would add +0), folded together: at every
// level a lane keeps half of its ranges, and gives its part of the others to the lane that keeps those. In the end each
// range's result is in width/kUnits neighbouring lanes, the first range's in the first of them.
//
//   distance 16    lane l < 16 keeps A: A[l] + A[l + 16]      lane l >= 16 keeps B: B[l] + B[l - 16]
template <class E, int kRule, int kUnits>
__device__ Stat<E> fold_units(Stat<E> (&stat)[kUnits], unsigned width) {
  const unsigned lane = threadIdx.x % 32;
  unsigned distance = width / 2, most = 16;
#pragma unroll
  for (int kept = kUnits / 2; kept > 0; kept /= 2, distance /= 2, most /= 2) {
    const bool upper = (lane & distance) != 0;
#pragma unroll
    for (int u = 0; u < kept; ++u) {
      const Stat<E> given = chosen(upper, stat[u], stat[u + kept]);
      stat[u] = chosen(upper, stat[u + kept], stat[u]);
      merge<E, kRule>(stat[u], exchanged<E, kRule>(given, distance));
    }
  }
#pragma unroll
  for (unsigned rest = most; rest > 0; rest /= 2)
    if (rest <= distance) merge<E, kRule>(stat[0], exchanged<E, kRule>(stat[0], rest));
  return stat[0];
}

// The same for one block of a sum per warp, or for two neighbouring blocks, which it also merges. All lanes get the
// result.
template <class E, int kRule, int kBlocks>
__device__ Stat<E> fold_warp_blocks(Stat<E> (&stat)[kBlocks]) {
  static_assert(kBlocks == 1 || kBlocks == 2);
  if constexpr (kBlocks == 1) {
    fold_lanes<E, kRule>(stat[0]);
    return stat[0];
  } else {
    Stat<E> all = fold_units<E, kRule>(stat, 32);
    merge<E, kRule>(all, exchanged<E, kRule>(all, 16));
    return all;
  }
}

// fold_units for 16-bit maxima, from the maxima of both halves of a word. Two ranges share a word until the end.
template <class E, int kUnits>
__device__ int fold_halves(const unsigned (&halves)[kUnits], unsigned width) {
  const unsigned lane = threadIdx.x % 32;
  unsigned pair[kUnits / 2];
#pragma unroll
  for (int i = 0; i < kUnits / 2; ++i)
    pair[i] = max_pair<E>(__byte_perm(halves[2 * i], halves[2 * i + 1], 0x5410),
                          __byte_perm(halves[2 * i], halves[2 * i + 1], 0x7632));
  unsigned distance = width / 2, most = 16;
#pragma unroll
  for (int kept = kUnits / 4; kept > 0; kept /= 2, distance /= 2, most /= 2) {
    const bool upper = (lane & distance) != 0;
#pragma unroll
    for (int i = 0; i < kept; ++i) {
      const unsigned given = upper ? pair[i] : pair[i + kept];
      pair[i] = max_pair<E>(upper ? pair[i + kept] : pair[i], __shfl_xor_sync(kAllLanes, given, distance));
    }
  }
#pragma unroll
  for (unsigned rest = most; rest > 0; rest /= 2)
    if (rest <= distance) pair[0] = max_pair<E>(pair[0], __shfl_xor_sync(kAllLanes, pair[0], rest));
  return static_cast<int>((lane & distance) != 0 ? pair[0] >> 16 : pair[0] & 0xFFFFU);
}

// Folds the sums of `blocks` blocks, at most 32, one per lane, in adjacent pairs, level by level. Lanes from `blocks`
// on have +0.
template <class E, int kRule>
__device__ void fold_blocks(Stat<E>& stat, int blocks = 32) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2)
    if (distance < blocks) merge<E, kRule>(stat, exchanged<E, kRule>(stat, distance));
}

// May be false for finite values too: f64 whose sum is infinite, and large 16-bit values.
template <class E, int kRule>
__device__ bool all_finite(const Stat<E>& stat) {
  if constexpr ((kRule == kAbsmean || kRule == kMse) && sizeof(Raw<E>) == 2) return stat.sum < kSumBound<E>;
  if constexpr (kRule == kAbsmean || kRule == kMse) return cuda::finite(stat.sum);
  return finite_bits<E>(static_cast<Bits<E>>(max(stat.up, stat.down)));
}

// ---- scales ----

__device__ inline float rounded(double v, float) { return __double2float_rn(v); }
__device__ inline double rounded(double v, double) { return v; }

// A mean is one division. If the count is a power of two, `inverse` is its reciprocal, and the product rounds the same
// real number; else `inverse` is 0.
template <class E>
__device__ Math<E> mean_of(double sum, std::int64_t count, double inverse = 0) {
  if constexpr (kSumUnit<E> != 1) sum = __dmul_rn(sum, kSumUnit<E>);
  const double mean = inverse > 0 ? __dmul_rn(sum, inverse) : __ddiv_rn(sum, static_cast<double>(count));
  const Math<E> m = rounded(mean, Math<E>{});
  return m > static_cast<Math<E>>(kMinMean) ? m : static_cast<Math<E>>(kMinMean);
}

// The scale of a range of count elements; for kMse, the scale that its rounds start from.
template <class E, int kRule>
__device__ Math<E> scale_of(const Stat<E>& stat, std::int64_t count, double inverse) {
  const Math<E> floor = static_cast<Math<E>>(kMinMax);
  if constexpr (kRule == kAbsmean || kRule == kMse) {
    return mean_of<E>(stat.sum, count, inverse);
  } else {
    Math<E> top = math_of<E>(static_cast<Bits<E>>(stat.up));
    if constexpr (kRule == kInt2) {
      const Math<E> half = half_of(math_of<E>(static_cast<Bits<E>>(stat.down)));
      top = top > half ? top : half;
    }
    return top > floor ? top : floor;
  }
}

// The scale as it is stored.
template <class E>
__device__ float stored_scale(Math<E> scale) {
  if constexpr (sizeof(Math<E>) == 8) return __double2float_rn(scale);
  return scale;
}

}  // namespace
}  // namespace tern::ternary_quantize
