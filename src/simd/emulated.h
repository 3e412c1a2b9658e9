// The vector operations in plain code, at any width: they define what every ISA header must do, lane for lane. The
// scalar kernels use the 16-byte instance; the 32- and 64-byte ones let every machine test every width of the generic
// loops.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "simd/fused.h"

// The compiler stops inlining in a file of many loops, and an operation that is called passes its vectors through
// memory, so most operations force inlining. The products that linear uses do not: with all of them inline, 13 tokens
// of floats take a sixth more instructions. Tests and sanitizer builds do not either: they would compile for minutes.
#if defined(TERN_WORDS_ARE_CALLED) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TERN_INLINE
#else
#define TERN_INLINE [[gnu::always_inline]]
#endif

namespace tern::simd {
namespace {

template <std::size_t kBytes_>
struct Emulated {
  static constexpr std::size_t kF = kBytes_ / 4;  // floats a vector holds
  static constexpr std::size_t kD = kF / 2;       // doubles; also the quads that two F's hold

  template <class T, std::size_t N>
  struct Lanes {
    T v[N];
  };
  using F = Lanes<float, kF>;
  using D = Lanes<double, kD>;
  using I = Lanes<std::int32_t, kF>;
  using B = Lanes<std::int8_t, 4 * kF>;

  // Applies f to each lane index.
  template <class V, class Fn>
  TERN_INLINE static V lanes(Fn f) {
    V out;
    for (std::size_t i = 0; i < sizeof(out.v) / sizeof(out.v[0]); ++i) out.v[i] = f(i);
    return out;
  }

  TERN_INLINE static F load(const float* p) {  // of any alignment
    F a;
    __builtin_memcpy(a.v, p, sizeof a.v);
    return a;
  }
  TERN_INLINE static F set1(float x) {
    return lanes<F>([&](std::size_t) { return x; });
  }
  TERN_INLINE static void store(float* p, F a) { __builtin_memcpy(p, a.v, sizeof a.v); }
  // A store that need not stay in the cache; p is kBytes-aligned.
  TERN_INLINE static void stream(float* p, F a) { store(p, a); }
  TERN_INLINE static void stream_fence() {}  // after the last stream(), before another thread reads
  TERN_INLINE static void prefetch_l1(const void* p) { __builtin_prefetch(p, 0, 3); }
  TERN_INLINE static void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }

  TERN_INLINE static D zero_d() { return D{}; }
  TERN_INLINE static D add(D a, D b) {
    return lanes<D>([&](std::size_t i) { return a.v[i] + b.v[i]; });
  }
  TERN_INLINE static void store(double* p, D a) { copy(p, a.v, kD); }
  // For each of kD quads: (|p0| + |p1|) + (|p2| + |p3|) in f64
  TERN_INLINE static D abs_quad_sums(const float* p) {
    float x[4 * kD];
    __builtin_memcpy(x, p, sizeof x);
    return lanes<D>([&](std::size_t i) {
      const float* q = x + 4 * i;
      return (wide_abs(q[0]) + wide_abs(q[1])) + (wide_abs(q[2]) + wide_abs(q[3]));
    });
  }
  // The same for kD quads of bf16, times 2^-896: the bits of a bf16, moved into the exponent and fraction of an f64,
  // are that value. Infinities and NaN become ordinary numbers, so `top` keeps the largest magnitude for finite_bf16().
  TERN_INLINE static D abs_quad_sums_bf16(const std::uint16_t* p, I& top) {
    std::uint16_t half[4 * kD];
    __builtin_memcpy(half, p, sizeof half);
    for (std::uint16_t& h : half) {
      h &= 0x7FFFU;
      top.v[0] = h > top.v[0] ? h : top.v[0];
    }
    const auto wide = [](std::uint16_t h) { return __builtin_bit_cast(double, static_cast<std::uint64_t>(h) << 45); };
    return lanes<D>([&](std::size_t i) {
      const std::uint16_t* q = half + 4 * i;
      return (wide(q[0]) + wide(q[1])) + (wide(q[2]) + wide(q[3]));
    });
  }
  TERN_INLINE static bool finite_bf16(I top) { return top.v[0] < 0x7F80; }
  // abs_quad_sums(p) with +0 for every |p| that is not above h. Adds the number of those above h to the lanes of count.
  TERN_INLINE static D abs_quad_sums_above(const float* p, float h, I& count) {
    float kept[4 * kD];
    __builtin_memcpy(kept, p, sizeof kept);
    for (std::size_t i = 0; i < 4 * kD; ++i) {
      const bool above = __builtin_fabsf(kept[i]) > h;
      kept[i] = above ? kept[i] : 0.0F;
      count.v[i % kF] += above ? 1 : 0;
    }
    return abs_quad_sums(kept);
  }
  // For the quads of two vectors: (a0*a0 + a1*a1) + (a2*a2 + a3*a3) in f64, where the squares are exact
  TERN_INLINE static D square_quad_sums(F a, F b) {
    return lanes<D>([&](std::size_t i) {
      const float* q = i < kD / 2 ? a.v + 4 * i : b.v + 4 * (i - kD / 2);
      const auto square = [&](std::size_t j) { return static_cast<double>(q[j]) * static_cast<double>(q[j]); };
      return (square(0) + square(1)) + (square(2) + square(3));
    });
  }
  // For the quads of two vectors x and two y, widened to f64: adds x*x, (x - y)*(x - y), x*y and y*y to sums[0] to [3],
  // each quad as (t0 + t1) + (t2 + t3)
  TERN_INLINE static void add_pair_quads(const F (&x)[2], const F (&y)[2], D (&sums)[4]) {
    for (std::size_t i = 0; i < kD; ++i) {
      const std::size_t v = i / (kD / 2), at = 4 * (i % (kD / 2));
      double term[4][4];
      for (std::size_t j = 0; j < 4; ++j) {
        const auto a = static_cast<double>(x[v].v[at + j]), b = static_cast<double>(y[v].v[at + j]), error = a - b;
        term[0][j] = a * a;
        term[1][j] = error * error;
        term[2][j] = a * b;
        term[3][j] = b * b;
      }
      for (std::size_t t = 0; t < 4; ++t) sums[t].v[i] += (term[t][0] + term[t][1]) + (term[t][2] + term[t][3]);
    }
  }

  TERN_INLINE static I zero_i() { return I{}; }
  TERN_INLINE static F abs(F a) {
    return lanes<F>([&](std::size_t i) { return __builtin_fabsf(a.v[i]); });
  }
  TERN_INLINE static F negate(F a) {
    return lanes<F>([&](std::size_t i) { return -a.v[i]; });
  }
  // sum + a where a is above h
  TERN_INLINE static F add_above(F sum, F a, F h) {
    return lanes<F>([&](std::size_t i) { return a.v[i] > h.v[i] ? sum.v[i] + a.v[i] : sum.v[i]; });
  }
  // |p| of 2 * kF bf16, split into even and odd elements
  TERN_INLINE static void magnitudes_bf16(const std::uint16_t* p, F& even, F& odd) {
    std::uint16_t halves[2 * kF];
    __builtin_memcpy(halves, p, sizeof halves);
    even = lanes<F>([&](std::size_t i) { return __builtin_fabsf(half::from_bf16(halves[2 * i])); });
    odd = lanes<F>([&](std::size_t i) { return __builtin_fabsf(half::from_bf16(halves[2 * i + 1])); });
  }
  // The larger bit pattern as int32. Floats that are not negative order like their bits, with NaN above infinity.
  TERN_INLINE static I max_bits(I m, F a) {
    return max(m, lanes<I>([&](std::size_t i) { return __builtin_bit_cast(std::int32_t, a.v[i]); }));
  }
  TERN_INLINE static I max(I a, I b) {
    return lanes<I>([&](std::size_t i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  TERN_INLINE static I add(I a, I b) {  // wraps around
    return lanes<I>([&](std::size_t i) {
      return static_cast<std::int32_t>(static_cast<std::uint32_t>(a.v[i]) + static_cast<std::uint32_t>(b.v[i]));
    });
  }
  TERN_INLINE static std::int32_t max_lane(I a) {
    std::int32_t top = a.v[0];
    for (const std::int32_t v : a.v) top = v > top ? v : top;
    return top;
  }
  TERN_INLINE static std::int32_t sum_lanes(I a) {
    std::int32_t sum = 0;
    for (const std::int32_t v : a.v) sum += v;
    return sum;
  }

  // sign(x) where |x| > h, else 0
  TERN_INLINE static I trits(F x, F h) {
    return lanes<I>([&](std::size_t i) { return (x.v[i] > h.v[i] ? 1 : 0) - (x.v[i] < -h.v[i] ? 1 : 0); });
  }
  // The same for 4 * kF f16 or bf16, narrowed to bytes. Their bits without the sign order like their magnitudes; `most`
  // is the largest of these that is not above h.
  TERN_INLINE static B trits_half(const std::uint16_t* p, std::uint16_t most) {
    std::uint16_t bits[4 * kF];
    __builtin_memcpy(bits, p, sizeof bits);
    return lanes<B>([&](std::size_t i) {
      const int sign = (bits[i] & 0x8000U) != 0 ? -1 : 1;
      return static_cast<std::int8_t>((bits[i] & 0x7FFFU) > most ? sign : 0);
    });
  }
  // rne(min(max(x/s, -2), 1)): adding 1.5 * 2^23 rounds to an integer, ties to even
  TERN_INLINE static I int2(F x, F s) {
    return lanes<I>([&](std::size_t i) {
      float q = x.v[i] / s.v[i];
      q = q > -2.0F ? q : -2.0F;
      q = q < 1.0F ? q : 1.0F;
      return static_cast<std::int32_t>((q + 12582912.0F) - 12582912.0F);
    });
  }
  // Narrows four vectors of small integers to one of bytes, in any order that the store_* operations undo.
  TERN_INLINE static B narrow(I a, I b, I c, I d) {
    const I* all[4] = {&a, &b, &c, &d};
    return lanes<B>([&](std::size_t i) { return static_cast<std::int8_t>(all[i / kF]->v[i % kF]); });
  }
  TERN_INLINE static void store_i8(std::int8_t* p, B a) { copy(p, a.v, 4 * kF); }
  TERN_INLINE static void store_i2(std::uint8_t* p, B a) { store_quads(p, a, 1); }
  TERN_INLINE static void store_s2(std::uint8_t* p, B a) { store_quads(p, a, 0); }
  TERN_INLINE static void store_u8(std::uint8_t* p, B a) {  // each byte plus 128
    for (std::size_t i = 0; i < 4 * kF; ++i) p[i] = static_cast<std::uint8_t>(a.v[i] + 128);
  }
  // Packs the low four bits of each byte, two to a byte, the first in the low half.
  TERN_INLINE static void store_nibbles(std::uint8_t* p, B a) {
    for (std::size_t i = 0; i < 2 * kF; ++i)
      p[i] = static_cast<std::uint8_t>((static_cast<unsigned>(a.v[2 * i]) & 15U) |
                                       ((static_cast<unsigned>(a.v[2 * i + 1]) & 15U) << 4));
  }

  TERN_INLINE static I widen(const std::int8_t* p) {
    return lanes<I>([&](std::size_t i) { return p[i]; });
  }
  TERN_INLINE static I widen_u8(const std::uint8_t* p) {
    return lanes<I>([&](std::size_t i) { return p[i]; });
  }
  TERN_INLINE static I invert(I a) {
    return lanes<I>([&](std::size_t i) { return ~a.v[i]; });
  }
  TERN_INLINE static F to_float(I a) {
    return lanes<F>([&](std::size_t i) { return static_cast<float>(a.v[i]); });
  }
  static F mul(F a, F b) {
    return lanes<F>([&](std::size_t i) { return a.v[i] * b.v[i]; });
  }
  // table4() makes a table of four floats; decode4() looks up the 4 * kF 2-bit codes of kF bytes in it.
  TERN_INLINE static F table4(const float* values) {
    return lanes<F>([&](std::size_t i) { return values[i % 4]; });
  }
  TERN_INLINE static void decode4(const std::uint8_t* p, F table, F (&out)[4]) {
    for (std::size_t i = 0; i < 4 * kF; ++i) out[i / kF].v[i % kF] = table.v[(p[i / 4] >> (2 * (i % 4))) & 3];
  }

  // kF elements of other types, of any alignment
  TERN_INLINE static F load_f16(const std::uint16_t* p) { return load_halves(p, half::from_f16); }
  TERN_INLINE static F load_bf16(const std::uint16_t* p) { return load_halves(p, half::from_bf16); }
  TERN_INLINE static void store_f16(std::uint16_t* p, F a) { store_halves(p, a, half::to_f16); }
  TERN_INLINE static void store_bf16(std::uint16_t* p, F a) { store_halves(p, a, half::to_bf16); }
  TERN_INLINE static I load_i32(const std::int32_t* p) {
    return lanes<I>([&](std::size_t i) { return p[i]; });
  }
  TERN_INLINE static void store_i32(std::int32_t* p, I a) { copy(p, a.v, kF); }

  TERN_INLINE static F zero_f() { return F{}; }
  TERN_INLINE static F add(F a, F b) {
    return lanes<F>([&](std::size_t i) { return a.v[i] + b.v[i]; });
  }
  TERN_INLINE static F div(F a, F b) {
    return lanes<F>([&](std::size_t i) { return a.v[i] / b.v[i]; });
  }
  TERN_INLINE static F relu(F a) {  // x < 0 ? +0 : x
    return lanes<F>([&](std::size_t i) { return a.v[i] < 0 ? 0.0F : a.v[i]; });
  }
  TERN_INLINE static F clamp(F a, F low, F high) {  // NaN becomes low
    return lanes<F>([&](std::size_t i) {
      const float up = a.v[i] > low.v[i] ? a.v[i] : low.v[i];
      return up < high.v[i] ? up : high.v[i];
    });
  }
  TERN_INLINE static I within(F a, F low, F high) {  // 1 where low <= a <= high, else 0
    return lanes<I>([&](std::size_t i) { return a.v[i] >= low.v[i] && a.v[i] <= high.v[i] ? 1 : 0; });
  }
  // The nearest integer, ties to even, of |x| below 2^22
  TERN_INLINE static I round(F a) {
    return lanes<I>([&](std::size_t i) { return static_cast<std::int32_t>((a.v[i] + 12582912.0F) - 12582912.0F); });
  }
  // a*b + c, where a*b is exact (b is -1, 0 or 1), so fused and unfused are the same
  static F mul_add(F a, F b, F c) { return add(mul(a, b), c); }
  // a*b + c, rounded once
  static F fma(F a, F b, F c) {
    return lanes<F>([&](std::size_t i) { return fused_multiply_add(a.v[i], b.v[i], c.v[i]); });
  }
  static constexpr bool kFused = false;  // whether mul_add rounds once

  // Products of codes and int8. A holds partial sums; total() must read them after at most kFlushSteps calls of dot().
  static constexpr std::size_t kBytes = 4 * kF;
  static constexpr std::size_t kFlushSteps = 64;  // for codes up to 2; a fourth of it for codes scaled by 4
  using U = Lanes<std::uint8_t, kBytes_>;
  using A = Lanes<std::int16_t, kBytes_ / 2>;
  static U load_bytes(const void* p) {
    U a;
    __builtin_memcpy(a.v, p, sizeof a.v);
    return a;
  }
  static void store_bytes(void* p, U a) { __builtin_memcpy(p, a.v, sizeof a.v); }
  template <int kShift>
  static U codes(U a, int mask) {  // (byte >> kShift) & mask
    return lanes<U>([&](std::size_t i) { return static_cast<std::uint8_t>((a.v[i] >> kShift) & mask); });
  }
  static A zero_a() { return A{}; }
  static A dot(A sums, U codes, U x) {  // x is int8
    return lanes<A>([&](std::size_t i) {
      const int even = codes.v[2 * i] * static_cast<std::int8_t>(x.v[2 * i]);
      const int odd = codes.v[2 * i + 1] * static_cast<std::int8_t>(x.v[2 * i + 1]);
      return static_cast<std::int16_t>(sums.v[i] + even + odd);
    });
  }
  template <int kShift>
  static I total(A sums) {  // adds neighbouring sums, then shifts right
    return lanes<I>([&](std::size_t i) { return (sums.v[2 * i] + sums.v[2 * i + 1]) >> kShift; });
  }
  // The same for codes up to 255, accumulated in int32 with wrap-around. An ISA may subtract kDotBytesLess from every
  // code first.
  static constexpr int kDotBytesLess = 0;
  static I dot_bytes(I sums, U codes, U x) {
    return lanes<I>([&](std::size_t i) {
      auto sum = static_cast<std::uint32_t>(sums.v[i]);
      for (std::size_t j = 4 * i; j < 4 * i + 4; ++j)
        sum += static_cast<std::uint32_t>(codes.v[j] * static_cast<std::int8_t>(x.v[j]));
      return static_cast<std::int32_t>(sum);
    });
  }
  static U broadcast4(const void* p) {  // repeats four bytes
    return lanes<U>([&](std::size_t i) { return static_cast<const std::uint8_t*>(p)[i % 4]; });
  }
  // lookup64(): table[(byte >> kShift) & 63]. differing(): the bits of `mask` in which two bytes differ.
  template <int kShift>
  static U lookup64(const std::uint8_t* table, U a) {
    return lanes<U>([&](std::size_t i) { return table[(a.v[i] >> kShift) & 63]; });
  }
  static U differing(U a, U b, int mask) {
    return lanes<U>([&](std::size_t i) { return static_cast<std::uint8_t>((a.v[i] ^ b.v[i]) & mask); });
  }
  // Bits kShift and kShift + 1 of each int32, minus one, as floats
  template <int kShift>
  static F trit_floats(U a) {
    return lanes<F>(
        [&](std::size_t i) { return static_cast<float>(((a.v[4 * i + kShift / 8] >> (kShift % 8)) & 3) - 1); });
  }

 private:
  TERN_INLINE static F load_halves(const std::uint16_t* p, float (*wide)(std::uint16_t)) {
    std::uint16_t halves[kF];
    __builtin_memcpy(halves, p, sizeof halves);
    return lanes<F>([&](std::size_t i) { return wide(halves[i]); });
  }
  TERN_INLINE static void store_halves(std::uint16_t* p, F a, std::uint16_t (*narrow)(float)) {
    std::uint16_t halves[kF];
    for (std::size_t i = 0; i < kF; ++i) halves[i] = narrow(a.v[i]);
    __builtin_memcpy(p, halves, sizeof halves);
  }
  TERN_INLINE static double wide_abs(float x) { return __builtin_fabs(static_cast<double>(x)); }
  template <class T>
  TERN_INLINE static void copy(T* to, const T* from, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) to[i] = from[i];
  }
  TERN_INLINE static void store_quads(std::uint8_t* p, const B& a, int bias) {
    for (std::size_t i = 0; i < kF; ++i) {
      unsigned byte = 0;
      for (std::size_t j = 0; j < 4; ++j) byte |= (static_cast<unsigned>(a.v[4 * i + j] + bias) & 3U) << (2 * j);
      p[i] = static_cast<std::uint8_t>(byte);
    }
  }
};

}  // namespace
}  // namespace tern::simd

#undef TERN_INLINE
