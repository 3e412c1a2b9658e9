// Clamped rne(x/s) on a GPU: the same integers as rounding the quotient, almost always without a division. For .cu
// files only.
#pragma once

#include "ops/cuda_words.h"

namespace tern::affine {
namespace {

// Adding a number below 2^21 in magnitude rounds it to an integer, which the lowest bits of the sum hold.
template <class Math>
constexpr Math kWhole = static_cast<Math>(sizeof(Math) == 4 ? 0x1.8p23 : 0x1.8p52);

// `lower` and `upper` are an approximate 1/s times 1 - 2^-21 and 1 + 2^-21 (f64: 2^-49), so the exact x/s and its
// roundings lie between x * lower and x * upper. quick() adds kWhole to both products with one FMA each. This rounds
// each once, to an integer unless it is far too large, and rounding is monotonic: if both sums are equal, the quotient
// gives the same sum. If they differ, which is rare, or x is not finite, the caller divides. For an s so small or large
// that a product could leave the range of normal numbers `lower` is NaN, so the sums never compare equal.
template <class Math>
struct Rounding {
  Math scale, low, high;
  Math upper, lower;
  bool reciprocal;

  __device__ Rounding(Math scale_, bool reciprocal_, Math low_, Math high_)
      : scale(scale_), low(low_), high(high_), reciprocal(reciprocal_) {
    constexpr bool kNarrow = sizeof(Math) == 4;
    constexpr Math kSmall = static_cast<Math>(kNarrow ? 0x1p-90 : 0x1p-900), kLarge = 1 / kSmall;
    constexpr Math kApart = static_cast<Math>(kNarrow ? 0x1p-21 : 0x1p-49);
    const Math inverse = near_inverse(scale);
    upper = inverse * (1 + kApart);
    lower = scale >= kSmall && scale <= kLarge ? inverse * (1 - kApart) : not_a_number();
  }
  // Whether 1/s is finite, if the problem uses it.
  [[nodiscard]] __device__ bool usable() const { return !reciprocal || cuda::finite(1 / scale); }
  // Makes every later quick() fail.
  __device__ void distrust() { lower = not_a_number(); }

  // Computes the clamped integers, each plus kWhole. Returns whether they are valid.
  template <int kCount>
  __device__ bool quick(const Math (&x)[kCount], Math (&w)[kCount]) const {
    Math apart = 0;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const Math from = fused(x[j], lower), to = fused(x[j], upper);
      apart += abs_of(to - from);
      w[j] = clamped(from, kWhole<Math> + low, kWhole<Math> + high);
    }
    return apart == 0;
  }
  template <int kCount>
  __device__ void sums(const Math (&x)[kCount], Math (&w)[kCount]) const {
    if (quick(x, w)) return;
#pragma unroll
    for (int j = 0; j < kCount; ++j) w[j] = sum(x[j]);
  }
  [[nodiscard]] __device__ Math sum(Math x) const { return sum_of(quotient(x)); }
  [[nodiscard]] __device__ Math sum_of(Math quotient) const { return clamped(quotient, low, high) + kWhole<Math>; }
  // x/s, rounded once, or twice with the reciprocal.
  [[nodiscard]] __device__ Math quotient(Math x) const { return reciprocal ? x * (1 / scale) : x / scale; }

 private:
  static __device__ Math not_a_number() { return static_cast<Math>(__uint_as_float(0x7FC00000U)); }
  static __device__ float near_inverse(float v) {  // relative error up to 2^-23
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(v));
    return inverse;
  }
  static __device__ double near_inverse(double v) { return 1 / v; }
  static __device__ float fused(float a, float b) { return fmaf(a, b, kWhole<float>); }
  static __device__ double fused(double a, double b) { return fma(a, b, kWhole<double>); }
  static __device__ float abs_of(float v) { return fabsf(v); }
  static __device__ double abs_of(double v) { return fabs(v); }
  static __device__ float clamped(float v, float from, float to) { return fminf(fmaxf(v, from), to); }
  static __device__ double clamped(double v, double from, double to) { return fmin(fmax(v, from), to); }
};

}  // namespace
}  // namespace tern::affine
