// Where gradients pass, for the CUDA kernels of fake_quantize and its backward. For .cu files only.
#pragma once

#include "ops/affine/cuda_rounding.h"

namespace tern::fake_quantize {
namespace {

// Of a rounding that still tells apart one code beyond either end: q is rne(x/s), at most so far outside.
template <class Math>
struct Ends {
  Math low, high;    // q_min - zp, q_max - zp
  Math first, last;  // where the mask is 1
  __device__ Ends(const affine::Rounding<Math>& rounding, bool strict)
      : low(rounding.low + 1), high(rounding.high - 1), first(strict ? low + 1 : low), last(strict ? high - 1 : high) {}
  [[nodiscard]] __device__ bool inside(Math q) const { return q >= first && q <= last; }
  [[nodiscard]] __device__ Math within(Math q) const { return q < low ? low : q > high ? high : q; }
};

}  // namespace
}  // namespace tern::fake_quantize
