// Turns quads in registers into codes: the limits that follow from a scale, the comparisons, packing and storing. For
// .cu files only.
#pragma once

#include "ops/ternary_quantize/cuda_quads.h"

namespace tern::ternary_quantize {
namespace {

// ---- arithmetic before a comparison: rounding never changes the sign of a difference ----

__device__ inline float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ inline double plus(double a, double b) { return __dadd_rn(a, b); }
__device__ inline float times_down(float a, float b) { return __fmul_rz(a, b); }
__device__ inline double times_down(double a, double b) { return __dmul_rz(a, b); }
__device__ inline float ratio(float a, float b) { return __fdiv_rn(a, b); }
__device__ inline double ratio(double a, double b) { return __ddiv_rn(a, b); }
__device__ inline float below(float v) { return __uint_as_float(__float_as_uint(v) - 1); }  // the next lower; v > 0
__device__ inline double below(double v) { return __longlong_as_double(__double_as_longlong(v) - 1); }

// The highest byte of each of four numbers, which holds the sign.
__device__ inline unsigned high_bytes(unsigned a, unsigned b, unsigned c, unsigned d) {
  return __byte_perm(__byte_perm(a, b, 0x0073), __byte_perm(c, d, 0x0073), 0x5410);
}
__device__ inline unsigned high_bytes(const float (&v)[4]) {
  return high_bytes(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3]));
}
__device__ inline unsigned high_bytes(const double (&v)[4]) {
  const auto word = [&](int e) { return static_cast<unsigned>(__double2hiint(v[e])); };
  return high_bytes(word(0), word(1), word(2), word(3));
}

// ---- four codes, each in the two highest bits of a byte: [c3......|c2......|c1......|c0......] ----

// Trits of a stored scale s, as i2 codes: -1, 0, +1 where |x| > s/2 are 0, 1, 2.
template <class E>
class TritCoder {
 public:
  __device__ explicit TritCoder(float s) {
    const float h = half_of(s);
    if constexpr (sizeof(Raw<E>) > 2) {
      limit_ = h;
    } else {  // a 16-bit magnitude is above s/2 exactly if it is above s/2 rounded down to 16 bits
      unsigned bits = __float_as_uint(h) >> 16;
      if constexpr (std::is_same_v<E, F16>) {
        unsigned short down;
        asm("cvt.rz.f16.f32 %0, %1;" : "=h"(down) : "f"(h));
        bits = down;
      }
      limit_ = 0x7FFF7FFFU - bits * 0x10001U;  // limit + magnitude has its highest bit set if the magnitude is above
    }
  }

  // The coder of another lane.
  __device__ TritCoder of_lane(int lane) const {
    TritCoder other = *this;
    other.limit_ = __shfl_sync(kAllLanes, limit_, lane);
    return other;
  }

  __device__ unsigned operator()(const Words<E>& q) const {
    unsigned above, sign;  // in the highest bit of each byte; the other bits are noise
    if constexpr (sizeof(Raw<E>) > 2) {
      Math<E> v[4], beyond[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        v[e] = math_of<E>(bits_of<E>(q, e));
        beyond[e] = plus(limit_, -abs_of(v[e]));
      }
      above = high_bytes(beyond);
      sign = high_bytes(v);
    } else {
      above = __byte_perm((q.w[0] & 0x7FFF7FFFU) + limit_, (q.w[1] & 0x7FFF7FFFU) + limit_, 0x7531);
      sign = __byte_perm(q.w[0], q.w[1], 0x7531);
    }
    // above 0: code 1. above 1, sign 0: code 2. above 1, sign 1: code 0.
    return (above & ~sign & 0x80808080U) | (~(above >> 1) & 0x40404040U);
  }

  // The codes as int8. No byte carries into the next.
  static __device__ unsigned as_i8(unsigned codes) { return ((codes >> 6) + 0x7F7F7F7FU) ^ 0x80808080U; }

 private:
  std::conditional_t<sizeof(Raw<E>) == 2, unsigned, Math<E>> limit_;
};

// int2 codes rne(clamp(rn(x/s), -2, 1)) in two's complement, without dividing x. Let p be the number of significand
// bits and u the ulp of s, so that s < 2^p u. Every number above s is a multiple of u.
//
//   rn(x/s) > 1/2 exactly if 2x > s: then 2x - s >= u, so x/s - 1/2 >= u/(2s) > 2^(-p-1), which is half an ulp of 1/2.
//     The same holds for -x.
//   rn(-x/s) >= 3/2 from some magnitude on, because rounded division is monotone. Let t be 3s/2 rounded down. The
//     number after t is above 3s/2, so it reaches 3/2. The number before t is at most 3s/2 - u, and u/s > 2^-p, which
//     is half an ulp of numbers just below 3/2, so it does not. One division decides t.
template <class E>
class Int2Coder {
 public:
  __device__ explicit Int2Coder(float scale) {
    const Math<E> s = scale, t = times_down(s, Math<E>{1.5F});
    half_ = times_down(s, Math<E>{0.5F});
    under_two_ = ratio(t, s) >= Math<E>{1.5F} ? below(t) : t;
  }

  __device__ Int2Coder of_lane(int lane) const {
    Int2Coder other = *this;
    other.half_ = __shfl_sync(kAllLanes, half_, lane);
    other.under_two_ = __shfl_sync(kAllLanes, under_two_, lane);
    return other;
  }

  __device__ unsigned operator()(const Words<E>& q) const {
    Math<E> from_half[4], from_minus_half[4], from_minus_two[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const Math<E> v = math_of<E>(bits_of<E>(q, e));
      from_half[e] = plus(half_, -v);
      from_minus_half[e] = plus(half_, v);
      from_minus_two[e] = plus(under_two_, v);
    }
    const unsigned above = high_bytes(from_half), under = high_bytes(from_minus_half), two = high_bytes(from_minus_two);
    // 1: 01. 0: 00. -1: 11. -2: 10.
    return (under & 0x80808080U) | ((above | (under & ~two)) >> 1 & 0x40404040U);
  }

  static __device__ unsigned as_i8(unsigned codes) {
    return (((codes >> 6) ^ 0x02020202U) + 0x7E7E7E7EU) ^ 0x80808080U;
  }

 private:
  Math<E> half_, under_two_;
};

template <class E, bool kIsInt2>
using Coder = std::conditional_t<kIsInt2, Int2Coder<E>, TritCoder<E>>;

// ---- stores ----

// Where a lane's quad goes: it is quad number `quad` of the codes that start at `to`; `valid` of its elements are in
// the range.
struct Place {
  std::uint8_t* to;
  int quad, valid;
};

//   [c3      |c2      |c1      |c0      ]  times 1 + 2^6 + 2^12 + 2^18: the highest byte is [c3|c2|c1|c0]
__device__ inline unsigned packed_high(unsigned codes) { return codes * 0x00041041U; }

// Transposes bytes among four neighbouring lanes. Each lane has one byte of each of four rows; afterwards the first
// lane has the bytes of row 0, the second those of row 1, and so on.
__device__ inline unsigned exchanged_bytes(unsigned bytes) {
  const bool odd = (threadIdx.x & 1) != 0, upper = (threadIdx.x & 2) != 0;
  bytes = __byte_perm(bytes, __shfl_xor_sync(kAllLanes, bytes, 1), odd ? 0x3715 : 0x6240);
  return __byte_perm(bytes, __shfl_xor_sync(kAllLanes, bytes, 2), upper ? 0x3276 : 0x5410);
}

// Stores a lane's quads; place_of(i) says where quad i goes. `words`: the codes of four neighbouring lanes (for i8, of
// one quad) are 4-byte aligned and all in their range or all outside, so one store can write them. If a quad is not
// whole, i8 stores `valid` elements; packed codes also store padding, the code of +0.
template <class C, int kQuads, class PlaceOf>
__device__ void store_quads(const unsigned (&codes)[kQuads], bool packs, bool words, PlaceOf place_of) {
  if constexpr (kQuads % 4 == 0)
    if (packs && words) {
      const int lane = static_cast<int>(threadIdx.x % 4);
#pragma unroll
      for (int i = 0; i < kQuads; i += 4) {
        const unsigned word = exchanged_bytes(high_bytes(packed_high(codes[i]), packed_high(codes[i + 1]),
                                                         packed_high(codes[i + 2]), packed_high(codes[i + 3])));
        const Place place = place_of(i + lane);
        if (place.valid > 0) *reinterpret_cast<unsigned*>(place.to + place.quad - lane) = word;
      }
      return;
    }
  if (packs) {
#pragma unroll
    for (int i = 0; i < kQuads; ++i)
      if (const Place place = place_of(i); place.valid > 0)
        place.to[place.quad] = static_cast<std::uint8_t>(packed_high(codes[i]) >> 24);
    return;
  }
  bool rest = false;  // elements that are not part of a word
#pragma unroll
  for (int i = 0; i < kQuads; ++i) {
    const Place place = place_of(i);
    const bool whole = words && place.valid >= 4;
    if (whole) *reinterpret_cast<unsigned*>(place.to + 4 * place.quad) = C::as_i8(codes[i]);
    rest = rest || (!whole && place.valid > 0);
  }
  if (!rest) return;
    // Rare. With both loops unrolled it would be most of a kernel's code.
#pragma unroll 1
  for (int e = 0; e < 4; ++e)
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const Place place = place_of(i);
      if (e < place.valid && !(words && place.valid >= 4))
        place.to[4 * place.quad + e] = static_cast<std::uint8_t>(C::as_i8(codes[i]) >> (8 * e));
    }
}

}  // namespace
}  // namespace tern::ternary_quantize
