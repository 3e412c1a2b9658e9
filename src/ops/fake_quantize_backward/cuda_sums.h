// Two sums over each range on a GPU, in the order of docs/numerics.md: a warp adds up a block of 1,024 elements, then
// warps fold the block sums in adjacent pairs. For .cu files only.
#pragma once

#include "base/checked.h"
#include "ops/affine/cuda_lines.h"
#include "ops/fake_quantize/cuda_ends.h"
#include "ops/fake_quantize_backward/fake_quantize_backward.h"

namespace tern::fake_quantize_backward {
namespace {

constexpr unsigned kAllLanes = 0xFFFFFFFFU;
constexpr std::int64_t kBlock = 1024;  // elements per block of a sum

struct Sums {
  double steps = 0, outside = 0;
  __device__ void add(const Sums& other) {
    steps = __dadd_rn(steps, other.steps);
    outside = __dadd_rn(outside, other.outside);
  }
};
// Adds the sums of two lanes that are `distance` apart; both lanes get the result.
__device__ inline void fold(Sums& sums, int distance) {
  sums.add({__shfl_xor_sync(kAllLanes, sums.steps, distance), __shfl_xor_sync(kAllLanes, sums.outside, distance)});
}

// Where the gradients of scales and zero points are written, and what they need besides the sums.
struct Outputs {
  const void* scales;
  bool scales_f32;  // else of x's type; the gradients have the same type
  void* grad_scales;
  void* grad_zero_points;
  double factor;
};

inline Outputs outputs_of(const Params& params) {
  return {.scales = params.qparams.scales,
          .scales_f32 = params.qparams.scale_dtype == DType::f32,
          .grad_scales = params.grad_scales,
          .grad_zero_points = params.grad_zero_points,
          .factor = params.problem.grad_factor};
}

// Rounds an f64 once. For 16-bit types it first rounds to f32 with round-to-odd, so that the second rounding is
// correct.
template <class E>
__device__ typename E::Raw rounded_once(double v) {
  if constexpr (sizeof(typename E::Raw) == 8) {
    return v;
  } else {
    const float near = __double2float_rn(v);
    if constexpr (sizeof(typename E::Raw) == 4) {
      return near;
    } else {
      if (v != v) return 0x7FFF;
      const double back = near;
      const unsigned beyond = fabs(back) > fabs(v) ? 1 : 0, inexact = back != v ? 1 : 0;
      return E::round(__uint_as_float((__float_as_uint(near) - beyond) | inexact));
    }
  }
}
template <class E>
__device__ void write_gradients(const Outputs& to, std::int64_t range, const Sums& sums) {
  const double s = to.scales_f32 ? static_cast<double>(static_cast<const float*>(to.scales)[range])
                                 : static_cast<double>(E::widen(static_cast<const typename E::Raw*>(to.scales)[range]));
  const double scale = __dmul_rn(sums.steps, to.factor);
  const double zero = -__dmul_rn(__dmul_rn(sums.outside, s), to.factor);
  if (to.scales_f32) {
    static_cast<float*>(to.grad_scales)[range] = __double2float_rn(scale);
    static_cast<float*>(to.grad_zero_points)[range] = __double2float_rn(zero);
  } else {
    static_cast<typename E::Raw*>(to.grad_scales)[range] = rounded_once<E>(scale);
    static_cast<typename E::Raw*>(to.grad_zero_points)[range] = rounded_once<E>(zero);
  }
}

// For elements that share a scale: computes their terms of the sums and returns whether their gradients pass.
template <class E>
struct Terms {
  using Math = typename E::Math;
  affine::By<E, Math> by;
  fake_quantize::Ends<Math> ends;
  __device__ Terms(const affine::Walk& walk, std::int64_t range, bool strict)
      : by(walk, range), ends(by.rounding, strict) {}

  __device__ bool operator()(Math x, Math g, Sums& sums) const {
    const Math v = by.rounding.quotient(x), q = by.rounding.sum_of(v) - affine::kWhole<Math>;
    const bool inside = ends.inside(q);
    sums.steps = __dmul_rn(static_cast<double>(g), static_cast<double>(inside ? q - v : ends.within(q)));
    sums.outside = inside ? 0.0 : static_cast<double>(g);
    return inside;
  }
};
// The sum of the terms of four neighbours.
__device__ inline Sums quad_sum(const Sums (&a)[4]) {
  return {__dadd_rn(__dadd_rn(a[0].steps, a[1].steps), __dadd_rn(a[2].steps, a[3].steps)),
          __dadd_rn(__dadd_rn(a[0].outside, a[1].outside), __dadd_rn(a[2].outside, a[3].outside))};
}

// The gradient, bit for bit, or 0 with its sign.
template <class E>
__device__ typename E::Raw passed(typename E::Raw g, bool inside) {
  if (inside) return g;
  if constexpr (sizeof g == 2)
    return static_cast<typename E::Raw>(g & 0x8000U);
  else if constexpr (sizeof g == 4)
    return __uint_as_float(__float_as_uint(g) & 0x80000000U);
  else
    return __longlong_as_double(__double_as_longlong(g) & static_cast<long long>(0x8000000000000000ULL));
}

// Folds the n sums of each range to ceil(n / 32), one warp for each result. If one result is left, it is the total, and
// its gradients are written. Missing sums are +0, and no sum is -0 because lanes begin at +0, so adding a missing sum
// changes nothing: an odd sum is carried up.
template <class E>
__global__ void __launch_bounds__(affine::kThreads)
    fold_sums(const Outputs to, const Sums* from, std::int64_t ranges, std::int64_t n, Sums* folded) {
  const std::int64_t left = ceil_div(n, 32);
  const std::int64_t unit = (static_cast<std::int64_t>(blockIdx.x) * affine::kThreads + threadIdx.x) / 32;
  if (unit >= ranges * left) return;
  std::int64_t part = 0;
  const std::int64_t range = cuda::divide(unit, left, part), at = part * 32 + threadIdx.x % 32;
  Sums sums;
  if (at < n) sums = from[range * n + at];
  for (int distance = 1; distance < 32; distance *= 2) fold(sums, distance);
  if (threadIdx.x % 32 != 0) return;
  if (left == 1)
    write_gradients<E>(to, range, sums);
  else
    folded[unit] = sums;
}

}  // namespace
}  // namespace tern::fake_quantize_backward
