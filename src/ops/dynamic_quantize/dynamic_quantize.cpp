// Checks a dynamic_quantize problem and its arguments, once, for all kernels.
#include "ops/dynamic_quantize/dynamic_quantize.h"

#include "base/errors.h"

namespace tern {

using dynamic_quantize::Params;
using Op = OpTraits<DynamicQuantize>;

ChooseQparams::Problem dynamic_quantize::choosing(const DynamicQuantize::Problem& p) {
  ChooseQparams::Problem problem;
  problem.shape = p.shape;
  problem.granularity = p.granularity;
  problem.dtype = p.dtype;
  problem.format = p.format;
  problem.scale_dtype = p.scale_dtype;
  problem.method = p.method;
  problem.zero_points = p.zero_points;
  problem.q_min = p.q_min;
  problem.q_max = p.q_max;
  problem.eps = p.eps;
  problem.non_finite = p.non_finite;
  problem.even_groups = p.even_groups;
  return problem;
}

Result<ProblemFacts> Op::facts(const DynamicQuantize::Problem& p) {
  if (p.method != QparamsMethod::minmax && p.method != QparamsMethod::absmax)
    return error(Code::invalid_argument, kName,
                 "{} looks at a range many times; take minmax or absmax, or choose_qparams", name(p.method));
  TERN_RETURN_IF_ERROR(choose_qparams::check_problem(kName, dynamic_quantize::choosing(p)));
  ProblemFacts facts{.op = kName, .dtype = p.dtype, .format = p.format, .k = affine::last_of(p.shape)};
  facts.aux = p.scale_dtype;
  facts.guarantee = Guarantee{.math = affine::in_f64(p.dtype, p.math) ? "f64" : "f32", .accumulator = "none"};
  return facts;
}

Result<Params> Op::bind(const DynamicQuantize::Problem& p, const DynamicQuantize::Args& args, DeviceId device) {
  const Where where(kName, device);
  TERN_ASSIGN(choose,
              choose_qparams::check_args(where, dynamic_quantize::choosing(p), args.x, args.scales, args.zero_points));
  affine_quantize::Params quantize{.problem = affine::problem_of<AffineQuantize>(p), .q = choose.rule.q, .x = args.x};
  TERN_ASSIGN(codes, as_rows(where, "codes", args.codes, code_dtype(p.format), affine::rows_of(p.shape),
                             row_bytes(p.format, affine::last_of(p.shape))));
  quantize.codes = static_cast<std::uint8_t*>(args.codes.data);
  quantize.code_row_bytes = codes.stride;
  quantize.qparams = {.scales = choose.scales,
                      .scale_dtype = p.scale_dtype,
                      .zero_points = static_cast<const std::int32_t*>(choose.zero_points),
                      .count = choose.count};
  TERN_RETURN_IF_ERROR(affine::check_all_apart(
      kName, {"codes", args.codes},
      {{"x", args.x}, {"scales", args.scales}, {"zero_points", p.zero_points ? args.zero_points : TensorView{}}}));
  return Params{choose, quantize};
}

}  // namespace tern
