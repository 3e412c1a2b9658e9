// Checks a fake_quantize_backward problem and its arguments, once, for all kernels.
#include "ops/fake_quantize_backward/fake_quantize_backward.h"

#include <cmath>

#include "base/elements.h"
#include "base/errors.h"

namespace tern {

using fake_quantize_backward::Params;
using Op = OpTraits<FakeQuantizeBackward>;

Result<ProblemFacts> Op::facts(const FakeQuantizeBackward::Problem& p) {
  TERN_RETURN_IF_ERROR(affine::check_words(kName, affine::words_of(p)));
  TERN_RETURN_IF_ERROR(affine::code_bounds(kName, p.format, p.q_min, p.q_max, p.zero_points));
  if (p.from_mask && p.qparam_gradients)
    return error(Code::invalid_argument, kName,
                 "a mask does not tell how far x was from its code: gradients of scales need x");
  if (!std::isfinite(p.grad_factor))
    return error(Code::invalid_argument, kName, "grad_factor is {}; it must be finite", p.grad_factor);
  ProblemFacts facts{.op = kName, .dtype = p.dtype, .format = p.format, .k = affine::last_of(p.shape)};
  facts.aux = p.scale_dtype;
  facts.epilogue = p.from_mask ? "from_mask" : p.qparam_gradients ? "qparam_gradients" : "none";
  if (p.strict) facts.epilogue += ".strict";
  facts.guarantee = Guarantee{.math = affine::in_f64(p.dtype, p.math) ? "f64" : "f32",
                              .accumulator = p.qparam_gradients ? "f64" : "none"};
  return facts;
}

Result<Params> Op::bind(const FakeQuantizeBackward::Problem& p, const FakeQuantizeBackward::Args& args,
                        DeviceId device) {
  const Where where(kName, device);
  Params params{.problem = p, .grad_y = args.grad_y, .grad_x = args.grad_x};
  TERN_RETURN_IF_ERROR(check_strided(where, "grad_y", args.grad_y, p.dtype, p.shape));
  TERN_RETURN_IF_ERROR(check_strided(where, "grad_x", args.grad_x, p.dtype, p.shape));
  TERN_RETURN_IF_ERROR(check_distinct(where, "grad_x", args.grad_x));
  const affine::Named grad_y{"grad_y", args.grad_y}, grad_x{"grad_x", args.grad_x};
  const std::int64_t k = affine::last_of(p.shape);
  params.mask_row_bytes = k;
  if (p.from_mask) {
    TERN_ASSIGN(mask, as_rows(where, "mask", args.mask, DType::u8, affine::rows_of(p.shape), k));
    params.mask = static_cast<const std::uint8_t*>(args.mask.data);
    params.mask_row_bytes = mask.stride;
    TERN_RETURN_IF_ERROR(affine::check_all_apart(kName, grad_x, {grad_y, {"mask", args.mask}}));
    return params;
  }
  TERN_ASSIGN(q, affine::code_bounds(kName, p.format, p.q_min, p.q_max, p.zero_points));
  params.q = q;
  params.x = args.x;
  TERN_RETURN_IF_ERROR(check_strided(where, "x", args.x, p.dtype, p.shape));
  TERN_ASSIGN(qparams,
              affine::bind_qparams(where, affine::words_of(p), affine::rules_of(p, q), args.scales, args.zero_points));
  params.qparams = qparams;
  const affine::Named x{"x", args.x}, scales{"scales", args.scales};
  const affine::Named zero_points{"zero_points", p.zero_points ? args.zero_points : ConstTensorView{}};
  TERN_RETURN_IF_ERROR(affine::check_all_apart(kName, grad_x, {grad_y, x, scales, zero_points}));
  if (!p.qparam_gradients) return params;
  const affine::Named grad_scales{"grad_scales", args.grad_scales};
  const affine::Named grad_zero_points{"grad_zero_points", args.grad_zero_points};
  for (const auto& [output, other] :
       {std::pair{grad_scales, grad_zero_points}, std::pair{grad_zero_points, grad_scales}}) {
    TERN_RETURN_IF_ERROR(check_dense(where, output.name, output.view, p.scale_dtype, qparams.count));
    TERN_RETURN_IF_ERROR(affine::check_all_apart(kName, output, {grad_y, x, scales, zero_points, grad_x, other}));
  }
  params.grad_scales = args.grad_scales.data;
  params.grad_zero_points = args.grad_zero_points.data;
  return params;
}

void fake_quantize_backward::write_gradients(const Params& params, std::int64_t range, double step_sum,
                                             double outside_sum) {
  const auto& p = params.problem;
  const double s = read_element(params.qparams.scales, p.scale_dtype, range);
  write_element(params.grad_scales, p.scale_dtype, range, step_sum * p.grad_factor);
  write_element(params.grad_zero_points, p.scale_dtype, range, -((outside_sum * s) * p.grad_factor));
}

}  // namespace tern
