// Computes scale and zero point from the extremes of a range on a GPU, with the same operations as rule.h. For .cu
// files only.
#pragma once

#include "ops/choose_qparams/choose_qparams.h"
#include "ops/cuda_words.h"

namespace tern::choose_qparams {
namespace {

template <class E>
struct CudaRule {
  using Math = typename E::Math;
  CodeRange q;
  bool zero_points, stored_f32;
  Math eps;
  // The outputs; `of_zero_points` is null without zero points.
  void* scales;
  std::int32_t* of_zero_points;
  cuda::Report report;

  struct Chosen {
    Math scale;  // as stored; infinite if its type cannot hold it
    int zero;
  };
  [[nodiscard]] __device__ Math as_stored(Math s) const {
    if (stored_f32) return static_cast<Math>(static_cast<float>(s));
    return E::widen(E::round(s));
  }
  // `up` is the largest x, `down` the largest -x, each at least 0.
  [[nodiscard]] __device__ Chosen choose(Math up, Math down) const {
    constexpr Math kWhole = static_cast<Math>(sizeof(Math) == 4 ? 0x1.8p23 : 0x1.8p52);
    const Math steps = static_cast<Math>(q.max - q.min);
    Math s = zero_points ? (up + down) / steps : (up > down ? up : down) / (steps / 2);
    if (!cuda::finite(s)) s = up / steps + down / steps;  // max - min alone overflowed
    s = as_stored(s > eps ? s : eps);
    if (!zero_points) return {s, 0};
    const int zero = q.min + static_cast<int>((down / s + kWhole) - kWhole);
    return {s, zero < q.min ? q.min : zero > q.max ? q.max : zero};
  }
  __device__ void store(std::int64_t range, const Chosen& chosen) const {
    if (!cuda::finite(chosen.scale)) report(cuda::kScaleTooLarge, range);
    if (stored_f32)
      static_cast<float*>(scales)[range] = static_cast<float>(chosen.scale);
    else
      static_cast<typename E::Raw*>(scales)[range] = E::round(chosen.scale);
    if (of_zero_points != nullptr) of_zero_points[range] = chosen.zero;
  }
};

template <class E>
CudaRule<E> rule_of(const Params& params, const cuda::Launch& launch) {
  return {.q = params.rule.q,
          .zero_points = params.rule.zero_points,
          .stored_f32 = params.rule.scale_dtype == DType::f32,
          .eps = params.rule.eps,
          .scales = params.scales,
          .of_zero_points = static_cast<std::int32_t*>(params.zero_points),
          .report = cuda::report_of(launch)};
}

}  // namespace
}  // namespace tern::choose_qparams
