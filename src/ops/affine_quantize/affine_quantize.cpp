// Checks an affine_quantize problem and its arguments, once, for all kernels.
#include "ops/affine_quantize/affine_quantize.h"

#include "base/errors.h"

namespace tern {

using affine_quantize::Params;
using affine_quantize::words_of;
using Op = OpTraits<AffineQuantize>;

namespace {

bool in_f64(const AffineQuantize::Problem& p) { return p.dtype == DType::f64 || p.math == AffineMath::torch_cuda; }

Result<CodeRange> code_bounds(const AffineQuantize::Problem& p) {
  const CodeRange all = code_range(p.format);
  if (p.q_min == 0 && p.q_max == 0) return all;
  if (p.q_min > p.q_max)
    return error(Code::invalid_argument, Op::kName, "q_min is {}, above q_max {}", p.q_min, p.q_max);
  if (p.q_min < all.min || p.q_max > all.max)
    return error(Code::invalid_argument, Op::kName, "codes of {} to {} do not go into {}, which holds {} to {}",
                 p.q_min, p.q_max, name(p.format), all.min, all.max);
  return CodeRange{p.q_min, p.q_max};
}

}  // namespace

affine::Words affine_quantize::words_of(const AffineQuantize::Problem& p) {
  return {.shape = p.shape,
          .granularity = p.granularity,
          .dtype = p.dtype,
          .format = p.format,
          .scale_dtype = p.scale_dtype,
          .even_groups = p.even_groups};
}

Result<ProblemFacts> Op::facts(const AffineQuantize::Problem& p) {
  TERN_RETURN_IF_ERROR(affine::check_words(kName, words_of(p)));
  TERN_ASSIGN(q, code_bounds(p));
  if (!p.zero_points && (q.min > 0 || q.max < 0))
    return error(Code::invalid_argument, kName, "without zero points they are 0, which is not one of {} to {}", q.min,
                 q.max);
  ProblemFacts facts{.op = kName, .dtype = p.dtype, .format = p.format, .k = affine::last_of(p.shape)};
  facts.aux = p.scale_dtype;
  facts.guarantee = Guarantee{.math = in_f64(p) ? "f64" : "f32", .accumulator = "none"};
  return facts;
}

Result<Params> Op::bind(const AffineQuantize::Problem& p, const AffineQuantize::Args& args, DeviceId device) {
  const Where where(kName, device);
  Params params{.problem = p, .x = args.x};
  TERN_ASSIGN(q, code_bounds(p));
  params.q = q;
  TERN_RETURN_IF_ERROR(check_strided(where, "x", args.x, p.dtype, p.shape));
  TERN_ASSIGN(codes, as_rows(where, "codes", args.codes, code_dtype(p.format), affine::rows_of(p.shape),
                             row_bytes(p.format, affine::last_of(p.shape))));
  params.codes = static_cast<std::uint8_t*>(args.codes.data);
  params.code_row_bytes = codes.stride;
  TERN_ASSIGN(qparams, affine::bind_qparams(where, words_of(p),
                                            {.zero_points = p.zero_points,
                                             .q = q,
                                             .reciprocal = p.math == AffineMath::reciprocal,
                                             .math = in_f64(p) ? DType::f64 : DType::f32},
                                            args.scales, args.zero_points));
  params.qparams = qparams;
  TERN_RETURN_IF_ERROR(check_apart(kName, "x", bytes_of(args.x), "codes", bytes_of(args.codes)));
  TERN_RETURN_IF_ERROR(check_apart(kName, "scales", bytes_of(args.scales), "codes", bytes_of(args.codes)));
  if (p.zero_points)
    TERN_RETURN_IF_ERROR(check_apart(kName, "zero_points", bytes_of(args.zero_points), "codes", bytes_of(args.codes)));
  return params;
}

}  // namespace tern
