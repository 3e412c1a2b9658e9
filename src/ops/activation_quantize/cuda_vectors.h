// Operations on tokens in GPU registers, 16 bytes of x at a time: the largest magnitude, the scale and the codes. For
// .cu files only.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ops/cuda_words.h"

namespace tern::activation_quantize {
namespace {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;

// A vector is 16 bytes of x in four words; earlier elements are in lower bits.
template <class E>
constexpr int kPerWord = 4 / sizeof(typename E::Raw);
template <class E>
constexpr int kVector = 4 * kPerWord<E>;
// The bits of +infinity. A magnitude with bits above these is NaN.
template <class E>
constexpr unsigned kInfinity = sizeof(typename E::Raw) == 4    ? 0x7F800000U
                               : std::is_same_v<E, cuda::Bf16> ? 0x7F80U
                                                               : 0x7C00U;
template <class E>
constexpr unsigned kMagnitude = sizeof(typename E::Raw) == 4 ? 0x7FFFFFFFU : 0x7FFFU;

struct Words {
  unsigned w[4];
};

template <class E>
__device__ unsigned bits_of(unsigned word, int j) {
  if constexpr (kPerWord<E> == 1) return word;
  return j == 0 ? word & 0xFFFFU : word >> 16;
}
template <class E>
__device__ float value_of(unsigned word, int j) {
  if constexpr (std::is_same_v<E, cuda::F16>) return cuda::F16::widen(static_cast<std::uint16_t>(bits_of<E>(word, j)));
  if constexpr (std::is_same_v<E, cuda::Bf16>) return __uint_as_float(j == 0 ? word << 16 : word & 0xFFFF0000U);
  return __uint_as_float(word);
}

// The largest magnitude so far, as bits, which without the sign order like the floats. 16-bit types keep one maximum
// for each half of a word; largest_of() takes the larger.
template <class E>
__device__ unsigned max_magnitudes(const Words& words, unsigned most) {
#pragma unroll
  for (const unsigned word : words.w)
    most = kPerWord<E> == 1 ? max(most, word & 0x7FFFFFFFU) : __vmaxu2(most, word & 0x7FFF7FFFU);
  return most;
}
template <class E>
__device__ unsigned largest_of(unsigned magnitudes) {
  return kPerWord<E> == 1 ? magnitudes : max(magnitudes & 0xFFFFU, magnitudes >> 16);
}

// NaN becomes +0. An infinity becomes the largest finite value of its sign, whose bits are one less.
template <class E>
__device__ void saturate(Words& words) {
#pragma unroll
  for (unsigned& word : words.w) {
    unsigned mended = 0;
#pragma unroll
    for (int j = 0; j < kPerWord<E>; ++j) {
      const unsigned bits = bits_of<E>(word, j), magnitude = bits & kMagnitude<E>;
      mended |= (magnitude > kInfinity<E> ? 0 : magnitude == kInfinity<E> ? bits - 1 : bits) << (16 * j);
    }
    word = mended;
  }
}

// rne(x * s) of four elements, one per byte. |x| is at most max abs, so |x * s| stays below 127.5 and needs no clamp.
// Adding 1.5 * 2^23, whose last bit is worth 1, rounds to an integer in the low bits.
__device__ inline unsigned rounded(float a, float b, float c, float d, float s) {
  constexpr float kShift = 12582912.0F;
  const auto bits = [s](float x) { return __float_as_uint(__fadd_rn(__fmul_rn(x, s), kShift)); };
  return __byte_perm(__byte_perm(bits(a), bits(b), 0x0040), __byte_perm(bits(c), bits(d), 0x0040), 0x5410);
}

// The scale s, from the bits of the largest magnitude.
template <class E>
__device__ float scale_of(unsigned magnitude) {
  return __fdiv_rn(127.0F, fmaxf(value_of<E>(magnitude, 0), 1e-5F));
}

__device__ inline unsigned warp_max(unsigned v) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kAllLanes, v);
#else
  for (int step = kWarp / 2; step > 0; step /= 2) v = max(v, __shfl_xor_sync(kAllLanes, v, step));
  return v;
#endif
}

}  // namespace
}  // namespace tern::activation_quantize
