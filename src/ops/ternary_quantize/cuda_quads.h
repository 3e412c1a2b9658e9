// Quads of elements in registers: how the CUDA kernels of ternary_quantize load them, measure them and make their
// codes. For .cu files only.
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
// One less is the largest finite value.
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

// x is read once and never written meanwhile, so it need not stay in L1.
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

// The first `valid` elements, and +0 behind them.
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

// The first of them in a quad, or -1.
template <class E>
__device__ int first_bad(const Words<E>& q) {
  int bad = -1;
#pragma unroll
  for (int e = 3; e >= 0; --e)
    if (!finite_bits<E>(bits_of<E>(q, e) & ~kSign<E>)) bad = e;
  return bad;
}

// NaN becomes +0, an infinity the largest finite value of its sign.
template <class E>
__device__ void saturate(Words<E>& q) {
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const Bits<E> bits = bits_of<E>(q, e), magnitude = bits & ~kSign<E>;
    if (magnitude > kInfinity<E>) set_bits<E>(q, e, 0);
    if (magnitude == kInfinity<E>) set_bits<E>(q, e, (bits & kSign<E>) | (kInfinity<E> - 1));
  }
}

// ---- statistics ----

// What a lane, a warp or a block knows of its part of a range. Which members count depends on the rule; the others are
// never touched and cost nothing.
template <class E>
struct Stat {
  double sum = 0;  // of magnitudes; NaN or infinite after such an element
  int count = 0;   // of elements above a threshold
  // Bits order like magnitudes, and NaN is above infinity. absmax: of |x|. int2: the largest of x and 0.
  SignedBits<E> up = 0;
  SignedBits<E> down = 0;  // int2: the largest of -x and 0
};

template <class E>
__device__ double wide_abs(const Words<E>& q, int e) {
  return static_cast<double>(abs_of(math_of<E>(bits_of<E>(q, e))));
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
    const Math<E> v = abs_of(math_of<E>(bits_of<E>(q, e)));
    count += v > h ? 1 : 0;
    a[e] = v > h ? static_cast<double>(v) : 0.0;
  }
  return __dadd_rn(__dadd_rn(a[0], a[1]), __dadd_rn(a[2], a[3]));
}

// The largest magnitude of kQuads quads.
template <class E, int kQuads>
__device__ SignedBits<E> max_bits(const Words<E>* q) {
  if constexpr (sizeof(Raw<E>) == 2) {
    // Both halves of a word at a time: as a pair where the chip compares pairs, else each shifted to the top.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    unsigned pair = 0;
#pragma unroll
    for (int j = 0; j < kQuads; ++j) pair = __vmaxu2(__vmaxu2(pair, q[j].w[0] & 0x7FFF7FFFU), q[j].w[1] & 0x7FFF7FFFU);
    return static_cast<int>(max(pair & 0xFFFFU, pair >> 16));
#else
    unsigned high = 0, low = 0;  // the bits under a half's own cannot make a smaller half win
#pragma unroll
    for (int j = 0; j < kQuads; ++j)
      for (const unsigned w : q[j].w) {
        high = max(high, w << 1);
        low = max(low, w << 17);
      }
    return static_cast<int>(max(high, low) >> 17);
#endif
  } else {
    Bits<E> top = 0;
#pragma unroll
    for (int j = 0; j < kQuads; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) top = max(top, bits_of<E>(q[j], e) & ~kSign<E>);
    return static_cast<SignedBits<E>>(top);
  }
}

// Negative values have their highest bit set, so as integers they lose against 0.
template <class E>
__device__ SignedBits<E> with_sign(Bits<E> bits) {
  if constexpr (sizeof(Raw<E>) == 2) return static_cast<short>(bits);
  return static_cast<SignedBits<E>>(bits);
}

// What a lane's quads give; the last of them first to be missing. The rule kMse sums what is above h.
template <class E, int kRule, int kQuads>
__device__ Stat<E> measure(const Words<E>* q, Math<E> h = 0) {
  Stat<E> stat;
  if constexpr (kRule == kAbsmax) stat.up = max_bits<E, kQuads>(q);
#pragma unroll
  for (int j = 0; j < kQuads; ++j) {
    if constexpr (kRule == kAbsmean) stat.sum = __dadd_rn(stat.sum, quad_sum<E>(q[j]));
    if constexpr (kRule == kMse) stat.sum = __dadd_rn(stat.sum, quad_sum_above<E>(q[j], h, stat.count));
    if constexpr (kRule == kInt2)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        stat.up = max(stat.up, with_sign<E>(bits_of<E>(q[j], e)));
        stat.down = max(stat.down, with_sign<E>(bits_of<E>(q[j], e) ^ kSign<E>));
      }
  }
  return stat;
}

// a's part of the range comes first; the order of two summands does not matter.
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

// Lanes fold l += l + 16, 8, 4, 2, 1 within each `width` of them; all of these get the result. Lanes from `width` on
// would have added +0.
template <class E, int kRule>
__device__ void fold_lanes(Stat<E>& stat, int width = 32) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (kRule == kAbsmax && sizeof(Raw<E>) <= 4)
    if (width == 32) {
      stat.up = __reduce_max_sync(kAllLanes, stat.up);
      return;
    }
#endif
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    if (distance < width) merge<E, kRule>(stat, exchanged<E, kRule>(stat, distance));
}

// Adjacent pairs, level by level: what folds the sums of 32 blocks, of which missing ones are +0.
template <class E, int kRule>
__device__ void fold_blocks(Stat<E>& stat) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) merge<E, kRule>(stat, exchanged<E, kRule>(stat, distance));
}

// False also for finite f64 whose sum is not.
template <class E, int kRule>
__device__ bool all_finite(const Stat<E>& stat) {
  if constexpr (kRule == kAbsmean || kRule == kMse) return cuda::finite(stat.sum);
  return finite_bits<E>(static_cast<Bits<E>>(max(stat.up, stat.down)));
}

// ---- scales ----

__device__ inline float rounded(double v, float) { return __double2float_rn(v); }
__device__ inline double rounded(double v, double) { return v; }

// A mean is one division; by a power of two it is a product, which rounds the same real number. `inverse` is that of
// the count where it is such a power, else 0.
template <class E>
__device__ Math<E> mean_of(double sum, std::int64_t count, double inverse = 0) {
  const double mean = inverse > 0 ? __dmul_rn(sum, inverse) : __ddiv_rn(sum, static_cast<double>(count));
  const Math<E> m = rounded(mean, Math<E>{});
  return m > static_cast<Math<E>>(kMinMean) ? m : static_cast<Math<E>>(kMinMean);
}

// The scale of a range of count elements, for kMse the one its rounds start from.
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

// As it is stored.
template <class E>
__device__ float stored_scale(Math<E> scale) {
  if constexpr (sizeof(Math<E>) == 8) return __double2float_rn(scale);
  return scale;
}

// ---- codes ----

// What codes need to know of a stored scale s: for trits, a number whose sum with a magnitude has its highest bit set
// where the magnitude is above s/2. Magnitudes of 16 bits are above s/2 where they are above it rounded down to them.
template <class E>
__device__ auto trit_limit(float s) {
  const float h = half_of(s);
  if constexpr (std::is_same_v<E, F64>) {
    return static_cast<double>(h);
  } else if constexpr (std::is_same_v<E, F32>) {
    return 0x7FFFFFFFU - __float_as_uint(h);
  } else {
    unsigned bits = __float_as_uint(h) >> 16;
    if constexpr (std::is_same_v<E, F16>) {
      unsigned short down;
      asm("cvt.rz.f16.f32 %0, %1;" : "=h"(down) : "f"(h));
      bits = down;
    }
    return 0x7FFF7FFFU - bits * 0x10001U;
  }
}

// Four trits as i2 codes, one a byte.
template <class E, class Limit>
__device__ unsigned trit_bytes(const Words<E>& q, Limit limit) {
  if constexpr (std::is_same_v<E, F64>) {
    unsigned bytes = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const double v = math_of<E>(bits_of<E>(q, e));
      bytes |= (!(fabs(v) > limit) ? 1U : v > 0 ? 2U : 0U) << (8 * e);
    }
    return bytes;
  } else {
    unsigned above, sign;  // in the highest bit of each byte; the other bits are noise
    if constexpr (std::is_same_v<E, F32>) {
      unsigned a[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) a[e] = (q.w[e] & 0x7FFFFFFFU) + limit;
      above = __byte_perm(__byte_perm(a[0], a[1], 0x0073), __byte_perm(a[2], a[3], 0x0073), 0x5410);
      sign = __byte_perm(__byte_perm(q.w[0], q.w[1], 0x0073), __byte_perm(q.w[2], q.w[3], 0x0073), 0x5410);
    } else {
      above = __byte_perm((q.w[0] & 0x7FFF7FFFU) + limit, (q.w[1] & 0x7FFF7FFFU) + limit, 0x7531);
      sign = __byte_perm(q.w[0], q.w[1], 0x7531);
    }
    // above 0: code 1. above 1, sign 0: code 2. above 1, sign 1: code 0.
    return ((above & ~sign) >> 6 & 0x02020202U) | (~above >> 7 & 0x01010101U);
  }
}

__device__ inline int int2_code(float x, float s) { return __float2int_rn(fminf(fmaxf(__fdiv_rn(x, s), -2.0F), 1.0F)); }
__device__ inline int int2_code(double x, double s) { return __double2int_rn(fmin(fmax(__ddiv_rn(x, s), -2.0), 1.0)); }

// Four codes of int2 as s2 codes, one a byte.
template <class E>
__device__ unsigned int2_bytes(const Words<E>& q, Math<E> s) {
  unsigned bytes = 0;
#pragma unroll
  for (int e = 0; e < 4; ++e)
    bytes |= (static_cast<unsigned>(int2_code(math_of<E>(bits_of<E>(q, e)), s)) & 3U) << (8 * e);
  return bytes;
}

//   byte     3       2       1       0
//       [......c3|......c2|......c1|......c0]  times 2^6 + 2^12 + 2^18 + 2^24: the highest byte is [c3|c2|c1|c0]
__device__ inline std::uint8_t packed(unsigned bytes) { return static_cast<std::uint8_t>(bytes * 0x01041040U >> 24); }
// Each byte to int8: trits have 1 too much, s2 codes are two bits of two's complement. No byte carries into the next.
__device__ inline unsigned trits_as_i8(unsigned bytes) { return (bytes + 0x7F7F7F7FU) ^ 0x80808080U; }
__device__ inline unsigned int2_as_i8(unsigned bytes) { return ((bytes ^ 0x02020202U) + 0x7E7E7E7EU) ^ 0x80808080U; }

// What codes need of a scale.
template <class E, bool kIsInt2>
__device__ auto limit_of(float s) {
  if constexpr (kIsInt2)
    return static_cast<Math<E>>(s);
  else
    return trit_limit<E>(s);
}

// Codes of one range: made for its scale, then called with its quads.
template <class E, bool kIsInt2>
class Coder {
 public:
  __device__ explicit Coder(float s) : limit_(limit_of<E, kIsInt2>(s)) {}

  // Writes quad number `quad` of codes that begin at `to`. Of a quad that is not whole, i8 stores `valid` elements, and
  // packed codes have their padding: a +0 gives it.
  __device__ void store(const Words<E>& q, std::uint8_t* to, int quad, int valid, bool packs, bool words) const {
    unsigned four = 0;
    if constexpr (kIsInt2)
      four = int2_bytes<E>(q, limit_);
    else
      four = trit_bytes<E>(q, limit_);
    if (packs) {
      if (valid > 0) to[quad] = packed(four);
      return;
    }
    four = kIsInt2 ? int2_as_i8(four) : trits_as_i8(four);
    to += 4 * quad;
    if (words && valid >= 4) {
      *reinterpret_cast<unsigned*>(to) = four;
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (e < valid) to[e] = static_cast<std::uint8_t>(four >> (8 * e));
    }
  }

 private:
  decltype(limit_of<E, kIsInt2>(0.0F)) limit_;
};

}  // namespace
}  // namespace tern::ternary_quantize
