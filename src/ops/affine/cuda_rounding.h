// rne(x/s) on a GPU, clamped: equal to the rounded quotient wherever that decides an integer, hardly ever by a
// division. For .cu files only.
#pragma once

#include "ops/cuda_words.h"

namespace tern::affine {
namespace {

// Added to it, a number of less than 2^21 is rounded to an integer, which the lowest bits hold.
template <class Math>
constexpr Math kWhole = static_cast<Math>(sizeof(Math) == 4 ? 0x1.8p23 : 0x1.8p52);

// x * (1/s) is off by two roundings, 2^-15 for a quotient of at most 260 in f32, and the rounded quotient by half of
// that: together less than 2^-14. Further than that from the middle between two integers both have the same one;
// nearer, the quotient itself decides. In f64 the same with 2^-40. Scales so small or large that 1/s or a product could
// leave the range of normal numbers always divide.
template <class Math>
struct Rounding {
  Math scale, inverse, limit, low, high;
  bool reciprocal;

  __device__ Rounding(Math scale_, bool reciprocal_, Math low_, Math high_)
      : scale(scale_), inverse(1 / scale_), low(low_), high(high_), reciprocal(reciprocal_) {
    constexpr bool kNarrow = sizeof(Math) == 4;
    constexpr Math kSmall = static_cast<Math>(kNarrow ? 0x1p-90 : 0x1p-900), kLarge = 1 / kSmall;
    constexpr Math kClear = static_cast<Math>(kNarrow ? 0.5 - 0x1p-14 : 0.5 - 0x1p-40);
    limit = scale >= kSmall && scale <= kLarge ? (reciprocal_ ? Math{1} : kClear) : Math{-1};
  }
  // Whether 1/s is finite where it is asked for.
  [[nodiscard]] __device__ bool usable() const { return !reciprocal || cuda::finite(inverse); }

  // The integers of the products, each added to kWhole, and how far the furthest product lies from its own: above the
  // limit they are not to be used.
  template <int kCount>
  __device__ Math quick(const Math (&x)[kCount], Math (&w)[kCount]) const {
    Math furthest = 0;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const Math t = clamped(x[j] * inverse);
      w[j] = t + kWhole<Math>;
      furthest = larger(furthest, abs_of(t - (w[j] - kWhole<Math>)));
    }
    return furthest;
  }
  // The integers, each added to kWhole.
  template <int kCount>
  __device__ void sums(const Math (&x)[kCount], Math (&w)[kCount]) const {
    if (quick(x, w) <= limit) return;
#pragma unroll
    for (int j = 0; j < kCount; ++j) w[j] = sum(x[j]);
  }
  [[nodiscard]] __device__ Math sum(Math x) const { return sum_of(quotient(x)); }
  [[nodiscard]] __device__ Math sum_of(Math quotient) const { return clamped(quotient) + kWhole<Math>; }
  // x/s, rounded once or, by the reciprocal, twice.
  [[nodiscard]] __device__ Math quotient(Math x) const { return reciprocal ? x * inverse : x / scale; }

 private:
  static __device__ float abs_of(float v) { return fabsf(v); }
  static __device__ double abs_of(double v) { return fabs(v); }
  static __device__ float larger(float a, float b) { return fmaxf(a, b); }
  static __device__ double larger(double a, double b) { return fmax(a, b); }
  [[nodiscard]] __device__ float clamped(float v) const { return fminf(fmaxf(v, low), high); }
  [[nodiscard]] __device__ double clamped(double v) const { return fmin(fmax(v, low), high); }
};

}  // namespace
}  // namespace tern::affine
