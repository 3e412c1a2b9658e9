// Checks a ternary_quantize problem and its arguments, once, for all kernels.
#include "ops/ternary_quantize/ternary_quantize.h"

#include "base/errors.h"
#include "format/format.h"
#include "ops/views.h"

namespace tern {

using ternary_quantize::Params;
using Op = OpTraits<TernaryQuantize>;

Result<ProblemFacts> Op::facts(const TernaryQuantize::Problem& p) {
  TERN_RETURN_IF_ERROR(check_extent(kName, p.rows, p.k, p.dtype, p.granularity));
  if (p.scale_given && p.scheme != Scheme::int2)
    return error(Code::invalid_argument, kName, "a scale was given, but {} computes its own; only int2 takes one",
                 name(p.scheme));
  if (!holds(p.format, p.scheme))
    return error(Code::invalid_argument, kName, "{} codes do not go into {}; take {} or i8", name(p.scheme),
                 name(p.format), name(default_format(p.scheme)));
  return ProblemFacts{.op = kName, .dtype = p.dtype, .format = p.format, .scheme = p.scheme, .k = p.k};
}

Result<Params> Op::bind(const TernaryQuantize::Problem& p, const TernaryQuantize::Args& args) {
  Params params{.problem = p, .ranges = make_ranges(p.rows, p.k, p.granularity)};
  TERN_ASSIGN(x, as_rows(kName, "x", args.x, p.dtype, p.rows, p.k));
  TERN_ASSIGN(codes, as_rows(kName, "codes", args.codes, code_dtype(p.format), p.rows, row_bytes(p.format, p.k)));
  TERN_RETURN_IF_ERROR(check_dense(kName, "scales", args.scales, DType::f32, params.ranges.total));
  params.x = static_cast<const float*>(args.x.data);
  params.x_stride = x.stride;
  params.codes = static_cast<std::uint8_t*>(args.codes.data);
  params.codes_stride = codes.stride;
  params.scales = static_cast<float*>(args.scales.data);

  const ByteSpan x_bytes = bytes_of(args.x), codes_bytes = bytes_of(args.codes), scale_bytes = bytes_of(args.scales);
  TERN_RETURN_IF_ERROR(check_apart(kName, "x", x_bytes, "codes", codes_bytes));
  TERN_RETURN_IF_ERROR(check_apart(kName, "x", x_bytes, "scales", scale_bytes));
  TERN_RETURN_IF_ERROR(check_apart(kName, "codes", codes_bytes, "scales", scale_bytes));

  if (p.scale_given && params.ranges.total > 0) {
    auto count = element_count(args.given_scale.shape);
    const bool one = count.ok() && *count == 1;
    TERN_RETURN_IF_ERROR(
        check_dense(kName, "given_scale", args.given_scale, DType::f32, one ? 1 : params.ranges.total));
    params.given = static_cast<const float*>(args.given_scale.data);
    params.given_step = one ? 0 : 1;
    TERN_RETURN_IF_ERROR(check_scales(kName, "given_scale", params.given, one ? 1 : params.ranges.total));
    TERN_RETURN_IF_ERROR(check_apart(kName, "given_scale", bytes_of(args.given_scale), "codes", codes_bytes));
    TERN_RETURN_IF_ERROR(check_apart(kName, "given_scale", bytes_of(args.given_scale), "scales", scale_bytes));
  }
  return params;
}

Error ternary_quantize::non_finite_error(const Params& params, std::int64_t index) {
  const std::int64_t row = index / params.problem.k, column = index % params.problem.k;
  float value = 0;
  __builtin_memcpy(&value, params.x + row * params.x_stride + column, sizeof value);
  return error_at(index, Code::non_finite, OpTraits<TernaryQuantize>::kName,
                  "x[{}, {}] (element {}) is {}; quantize finite values, or use the policy saturate", row, column,
                  index, value);
}

}  // namespace tern
