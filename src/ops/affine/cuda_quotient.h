// x/s for codes on a GPU: equal to the rounded quotient wherever that decides a code. For .cu files only.
#pragma once

#include <cuda_runtime.h>

#include "tern/affine.h"

namespace tern::affine {
namespace {

// In f64: one division, or a product with 1/s.
template <class Math>
struct Quotient {
  Math by;
  bool reciprocal;
  __device__ Quotient(Math scale, bool reciprocal_) : by(reciprocal_ ? 1 / scale : scale), reciprocal(reciprocal_) {}
  __device__ Math operator()(Math x) const { return reciprocal ? x * by : x / by; }
  [[nodiscard]] __device__ bool usable() const { return !reciprocal || by <= 0x1.FFFFFFFFFFFFFp1023; }
};

// In f32: 1/s is rounded once for all elements of a vector; x * (1/s), made better twice by what is left of x, is the
// rounded quotient (Markstein) where nothing leaves the range of f32. With 2^-90 <= s <= 2^90 nothing does that
// matters: a quotient below 1/4 gives the code of 0 however it is rounded, and one above 2^20 that of the nearer bound.
template <>
struct Quotient<float> {
  enum Way : int { multiply, refine, divide };
  float scale, inverse;
  Way way;
  __device__ Quotient(float scale_, bool reciprocal)
      : scale(scale_),
        inverse(1 / scale_),
        way(reciprocal                                ? multiply
            : scale_ >= 0x1p-90F && scale_ <= 0x1p90F ? refine
                                                      : divide) {}
  __device__ float operator()(float x) const {
    if (way == divide) return __fdiv_rn(x, scale);
    const float first = __fmul_rn(x, inverse);
    if (way == multiply || fabsf(first) >= 0x1p20F) return first;
    const float second = __fmaf_rn(__fmaf_rn(-first, scale, x), inverse, first);
    return __fmaf_rn(__fmaf_rn(-second, scale, x), inverse, second);
  }
  [[nodiscard]] __device__ bool usable() const { return way != multiply || inverse <= 0x1.FFFFFEp127F; }
};

}  // namespace
}  // namespace tern::affine
