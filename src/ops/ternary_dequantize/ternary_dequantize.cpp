// Checks a ternary_dequantize problem and its arguments, once, for all kernels.
#include "ops/ternary_dequantize/ternary_dequantize.h"

#include "base/errors.h"
#include "base/views.h"
#include "format/format.h"
#include "format/invalid_value.h"

namespace tern {

using ternary_dequantize::Params;
using Op = OpTraits<TernaryDequantize>;

Result<ProblemFacts> Op::facts(const TernaryDequantize::Problem& p) {
  TERN_RETURN_IF_ERROR(check_extent(kName, p.rows, p.k, p.dtype, p.granularity));
  if (!holds(p.format, p.scheme))
    return error(Code::invalid_argument, kName, "{} codes are not stored as {}; they are {}", name(p.scheme),
                 name(p.format), holders_of(p.scheme));
  ProblemFacts facts{.op = kName, .dtype = p.dtype, .format = p.format, .scheme = p.scheme, .k = p.k};
  if (p.dtype == DType::f64) facts.guarantee = Guarantee{.math = "f64"};
  return facts;
}

Result<Params> Op::bind(const TernaryDequantize::Problem& p, const TernaryDequantize::Args& args, DeviceId device) {
  const Where where(kName, device);
  Params params{.problem = p, .ranges = make_ranges(p.rows, p.k, p.granularity)};
  TERN_ASSIGN(codes, as_rows(where, "codes", args.codes, code_dtype(p.format), p.rows, row_bytes(p.format, p.k)));
  TERN_RETURN_IF_ERROR(check_dense(where, "scales", args.scales, DType::f32, params.ranges.total));
  TERN_ASSIGN(y, as_rows(where, "y", args.y, p.dtype, p.rows, p.k));
  params.codes = static_cast<const std::uint8_t*>(args.codes.data);
  params.codes_stride = codes.stride;
  params.scales = static_cast<const float*>(args.scales.data);
  params.y = args.y.data;
  params.y_stride = y.stride;
  TERN_RETURN_IF_ERROR(check_scales(where, "scales", params.scales, params.ranges.total));
  TERN_RETURN_IF_ERROR(check_apart(kName, "codes", bytes_of(args.codes), "y", bytes_of(args.y)));
  TERN_RETURN_IF_ERROR(check_apart(kName, "scales", bytes_of(args.scales), "y", bytes_of(args.y)));
  return params;
}

Error ternary_dequantize::invalid_code_error(const Params& params) {
  const auto& p = params.problem;
  const CodeRange range = code_range(p.scheme);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const std::uint8_t* codes = params.codes + row * params.codes_stride;
    const std::int64_t column = first_invalid_code(p.format, p.scheme, codes, p.k);
    if (column >= 0 && column < p.k)
      return with(
          invalid_code(p.format, p.scheme, codes, p.k, column),
          error_at(row * p.k + column, Code::invalid_quantized_value, OpTraits<TernaryDequantize>::kName,
                   "codes[{}, {}] (element {}) is {}; {} has codes from {} to {}", row, column, row * p.k + column,
                   read_code(p.format, codes, column), name(p.scheme), range.min, range.max));
  }
  return error(Code::internal, OpTraits<TernaryDequantize>::kName, "a kernel refused codes that are all valid");
}

TernaryDequantize::Problem Op::problem(const ProblemWords& words) {
  return {.rows = words.rows,
          .k = words.k,
          .dtype = words.dtype.value_or(DType::f32),
          .scheme = words.scheme,
          .granularity = words.granularity,
          .format = words.format.value_or(default_format(words.scheme))};
}

}  // namespace tern
