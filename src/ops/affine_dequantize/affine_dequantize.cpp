// Checks an affine_dequantize problem and its arguments, once, for all kernels.
#include "ops/affine_dequantize/affine_dequantize.h"

#include "base/errors.h"

namespace tern {

using affine::words_of;
using affine_dequantize::Params;
using Op = OpTraits<AffineDequantize>;

Result<ProblemFacts> Op::facts(const AffineDequantize::Problem& p) {
  TERN_RETURN_IF_ERROR(affine::check_words(kName, words_of(p)));
  ProblemFacts facts{.op = kName, .dtype = p.dtype, .format = p.format, .k = affine::last_of(p.shape)};
  facts.aux = p.scale_dtype;
  facts.guarantee = Guarantee{.math = p.dtype == DType::f64 ? "f64" : "f32", .accumulator = "none"};
  return facts;
}

Result<Params> Op::bind(const AffineDequantize::Problem& p, const AffineDequantize::Args& args, DeviceId device) {
  const Where where(kName, device);
  TERN_ASSIGN(codes, as_rows(where, "codes", args.codes, code_dtype(p.format), affine::rows_of(p.shape),
                             row_bytes(p.format, affine::last_of(p.shape))));
  TERN_ASSIGN(qparams,
              affine::bind_qparams(where, words_of(p), {.zero_points = p.zero_points, .q = code_range(p.format)},
                                   args.scales, args.zero_points));
  TERN_RETURN_IF_ERROR(check_strided(where, "y", args.y, p.dtype, p.shape));
  TERN_RETURN_IF_ERROR(check_distinct(where, "y", args.y));
  TERN_RETURN_IF_ERROR(
      affine::check_all_apart(kName, {"y", args.y},
                              {{"codes", args.codes},
                               {"scales", args.scales},
                               {"zero_points", p.zero_points ? args.zero_points : ConstTensorView{}}}));
  return Params{.problem = p,
                .codes = static_cast<const std::uint8_t*>(args.codes.data),
                .code_row_bytes = codes.stride,
                .qparams = qparams,
                .y = args.y};
}

}  // namespace tern
