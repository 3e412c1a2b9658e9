// Checks a fake_quantize problem and its arguments, once, for all kernels.
#include "ops/fake_quantize/fake_quantize.h"

#include "base/errors.h"

namespace tern {

using fake_quantize::Params;
using Op = OpTraits<FakeQuantize>;

Result<ProblemFacts> Op::facts(const FakeQuantize::Problem& p) {
  TERN_RETURN_IF_ERROR(affine::check_words(kName, affine::words_of(p)));
  TERN_RETURN_IF_ERROR(affine::code_bounds(kName, p.format, p.q_min, p.q_max, p.zero_points));
  if (p.strict && !p.mask)
    return error(Code::invalid_argument, kName, "strict is a word of the mask, which was not asked for; set mask, too");
  ProblemFacts facts{.op = kName, .dtype = p.dtype, .format = p.format, .k = affine::last_of(p.shape)};
  facts.aux = p.scale_dtype;
  facts.epilogue = !p.mask ? "none" : p.strict ? "strict_mask" : "mask";
  facts.guarantee = Guarantee{.math = affine::in_f64(p.dtype, p.math) ? "f64" : "f32", .accumulator = "none"};
  return facts;
}

Result<Params> Op::bind(const FakeQuantize::Problem& p, const FakeQuantize::Args& args, DeviceId device) {
  const Where where(kName, device);
  Params params{.problem = p, .x = args.x, .y = args.y};
  TERN_ASSIGN(q, affine::code_bounds(kName, p.format, p.q_min, p.q_max, p.zero_points));
  params.q = q;
  TERN_RETURN_IF_ERROR(check_strided(where, "x", args.x, p.dtype, p.shape));
  TERN_RETURN_IF_ERROR(check_strided(where, "y", args.y, p.dtype, p.shape));
  TERN_RETURN_IF_ERROR(check_distinct(where, "y", args.y));
  TERN_ASSIGN(qparams,
              affine::bind_qparams(where, affine::words_of(p), affine::rules_of(p, q), args.scales, args.zero_points));
  params.qparams = qparams;
  const affine::Named x{"x", args.x}, scales{"scales", args.scales};
  const affine::Named zero_points{"zero_points", p.zero_points ? args.zero_points : ConstTensorView{}};
  TERN_RETURN_IF_ERROR(affine::check_all_apart(kName, {"y", args.y}, {x, scales, zero_points}));
  params.mask_row_bytes = affine::last_of(p.shape);
  if (!p.mask) return params;
  TERN_ASSIGN(mask, as_rows(where, "mask", args.mask, DType::u8, affine::rows_of(p.shape), affine::last_of(p.shape)));
  params.mask = static_cast<std::uint8_t*>(args.mask.data);
  params.mask_row_bytes = mask.stride;
  TERN_RETURN_IF_ERROR(affine::check_all_apart(kName, {"mask", args.mask}, {x, scales, zero_points, {"y", args.y}}));
  return params;
}

}  // namespace tern
