// fake_quantize_backward: grad_x = mask ? grad_y : 0, and sums over each range for the gradients of its scale and zero
// point.
#pragma once

#include "ops/affine/affine.h"
#include "ops/fake_quantize_backward/simd_table.h"
#include "ops/op.h"
#include "tern/fake_quantize.h"

namespace tern {
namespace fake_quantize_backward {

// What a kernel gets: checked arguments. With from_mask there are neither x nor qparams; otherwise there is no mask.
struct Params {
  FakeQuantizeBackward::Problem problem;
  CodeRange q = {};
  ConstTensorView grad_y;
  ConstTensorView x;
  affine::Qparams qparams;
  const std::uint8_t* mask = nullptr;
  std::int64_t mask_row_bytes = 0;  // from one row of grad_y to the next
  TensorView grad_x;
  void* grad_scales = nullptr;  // null if not requested, like the next
  void* grad_zero_points = nullptr;
};

// Writes the gradients of a range, computed in f64 from its two sums and rounded once to the type of scales.
void write_gradients(const Params& params, std::int64_t range, double step_sum, double outside_sum);

}  // namespace fake_quantize_backward

template <>
struct OpTraits<FakeQuantizeBackward> {
  using Params = fake_quantize_backward::Params;
  static constexpr std::string_view kName = "fake_quantize_backward";

  static Result<ProblemFacts> facts(const FakeQuantizeBackward::Problem& problem);
  static Result<Params> bind(const FakeQuantizeBackward::Problem& problem, const FakeQuantizeBackward::Args& args,
                             DeviceId device = {});
  static bool empty(const Params& params) { return affine::is_empty(params.problem.shape); }
  static std::int64_t operations(const Params& p) { return affine::elements_of(p.problem.shape); }

  static constexpr Words kWords = Words::of(Word::granularity, Word::format);
  static constexpr std::string_view kScheme = "affine";
  static FakeQuantizeBackward::Problem problem(const ProblemWords& words) {
    return affine::problem_of_words<FakeQuantizeBackward>(words);
  }
  template <class Args, class See>
  static void operands(const FakeQuantizeBackward::Problem& p, Args& args, See&& see) {
    see("grad_y", args.grad_y, p.dtype, p.shape);
    if (p.from_mask) {
      see("mask", args.mask, DType::u8, p.shape);
    } else {
      see("x", args.x, p.dtype, p.shape);
      affine::see_qparams(p, args, see);
    }
    see("grad_x", args.grad_x, p.dtype, p.shape);
    if (!p.qparam_gradients) return;
    const Shape ranges{affine::scales_of(p)};
    see("grad_scales", args.grad_scales, p.scale_dtype, ranges);
    see("grad_zero_points", args.grad_zero_points, p.scale_dtype, ranges);
  }
  template <class P, class See>
  static void memory(P& p, See&& see) {
    see(p.grad_y);
    see(p.mask, affine::code_area(p.problem.shape, Format::u8, p.mask_row_bytes));
    if (p.mask == nullptr) {
      see(p.x);
      affine::see_memory(p.qparams, see);
    }
    see(p.grad_x);
    const Area gradients = Area::dense(p.qparams.count, size_of(p.problem.scale_dtype));
    see(p.grad_scales, gradients);
    see(p.grad_zero_points, gradients);
  }
};

namespace fake_quantize_backward {
TERN_OP_DRIVERS(FakeQuantizeBackward)
}  // namespace fake_quantize_backward
}  // namespace tern
