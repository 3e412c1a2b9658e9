// Checks an affine_quantize problem and its arguments, once, for all kernels.
#include "ops/affine_quantize/affine_quantize.h"

#include "base/errors.h"

namespace tern {

using affine::words_of;
using affine_quantize::Params;
using Op = OpTraits<AffineQuantize>;

Result<ProblemFacts> Op::facts(const AffineQuantize::Problem& p) {
  TERN_RETURN_IF_ERROR(affine::check_words(kName, words_of(p)));
  TERN_RETURN_IF_ERROR(affine::code_bounds(kName, p.format, p.q_min, p.q_max, p.zero_points));
  ProblemFacts facts{.op = kName, .dtype = p.dtype, .format = p.format, .k = affine::last_of(p.shape)};
  facts.aux = p.scale_dtype;
  facts.guarantee = Guarantee{.math = affine::in_f64(p.dtype, p.math) ? "f64" : "f32", .accumulator = "none"};
  return facts;
}

Result<Params> Op::bind(const AffineQuantize::Problem& p, const AffineQuantize::Args& args, DeviceId device) {
  const Where where(kName, device);
  Params params{.problem = p, .x = args.x};
  TERN_ASSIGN(q, affine::code_bounds(kName, p.format, p.q_min, p.q_max, p.zero_points));
  params.q = q;
  TERN_RETURN_IF_ERROR(check_strided(where, "x", args.x, p.dtype, p.shape));
  TERN_ASSIGN(codes, as_rows(where, "codes", args.codes, code_dtype(p.format), affine::rows_of(p.shape),
                             row_bytes(p.format, affine::last_of(p.shape))));
  params.codes = static_cast<std::uint8_t*>(args.codes.data);
  params.code_row_bytes = codes.stride;
  TERN_ASSIGN(qparams,
              affine::bind_qparams(where, affine::words_of(p), affine::rules_of(p, q), args.scales, args.zero_points));
  params.qparams = qparams;
  TERN_RETURN_IF_ERROR(affine::check_all_apart(
      kName, {"codes", args.codes},
      {{"x", args.x}, {"scales", args.scales}, {"zero_points", p.zero_points ? args.zero_points : ConstTensorView{}}}));
  return params;
}

}  // namespace tern
