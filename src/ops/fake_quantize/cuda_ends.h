// The test of whether a gradient passes, for the CUDA kernels of fake_quantize and fake_quantize_backward. For .cu
// files only.
#pragma once

#include "ops/affine/cuda_rounding.h"

namespace tern::fake_quantize {
namespace {

// Made from a Rounding that clamps to one code beyond either end (Walk::beyond is 1). So q, which is rne(x/s) clamped
// that way, still shows whether it was outside.
template <class Math>
struct Ends {
  Math low, high;      // q_min - zp, q_max - zp
  Math middle, reach;  // the mask is 1 where |q - middle| <= reach; both are integers or halves
  __device__ Ends(const affine::Rounding<Math>& rounding, bool strict)
      : low(rounding.low + 1), high(rounding.high - 1), middle((low + high) / 2), reach((high - low) / 2) {
    if (strict) reach -= 1;
  }
  [[nodiscard]] __device__ bool inside(float q) const { return fabsf(q - middle) <= reach; }
  [[nodiscard]] __device__ bool inside(double q) const { return fabs(q - middle) <= reach; }
  [[nodiscard]] __device__ float within(float q) const { return fminf(fmaxf(q, low), high); }
  [[nodiscard]] __device__ double within(double q) const { return fmin(fmax(q, low), high); }
};

}  // namespace
}  // namespace tern::fake_quantize
