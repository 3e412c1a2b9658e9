// Where gradients pass, for the CUDA kernels of fake_quantize and its backward. For .cu files only.
#pragma once

#include "ops/affine/cuda_rounding.h"

namespace tern::fake_quantize {
namespace {

// Of a rounding that still tells apart one code beyond either end: q is rne(x/s), at most so far outside.
template <class Math>
struct Ends {
  Math low, high;      // q_min - zp, q_max - zp
  Math middle, reach;  // the mask is 1 so far from the middle; both are integers or halves
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
