// Checks a ternary_quantize problem and its arguments, once, for all kernels.
#include "ops/ternary_quantize/ternary_quantize.h"

#include <limits>

#include "base/elements.h"
#include "base/errors.h"
#include "base/views.h"
#include "format/format.h"
#include "format/invalid_value.h"

namespace tern {

using ternary_quantize::Params;
using Op = OpTraits<TernaryQuantize>;

Result<ProblemFacts> Op::facts(const TernaryQuantize::Problem& p) {
  TERN_RETURN_IF_ERROR(check_extent(kName, p.rows, p.k, p.dtype, p.granularity));
  if (p.scale_given && p.scheme != Scheme::int2)
    return error(Code::invalid_argument, kName, "a scale was given, but {} computes its own; only int2 takes one",
                 name(p.scheme));
  if (!holds(p.format, p.scheme))
    return error(Code::invalid_argument, kName, "{} codes do not go into {}; take {}", name(p.scheme), name(p.format),
                 holders_of(p.scheme));
  ProblemFacts facts{.op = kName, .dtype = p.dtype, .format = p.format, .scheme = p.scheme, .k = p.k};
  if (p.dtype == DType::f64) facts.guarantee = Guarantee{.math = "f64"};
  return facts;
}

Result<Params> Op::bind(const TernaryQuantize::Problem& p, const TernaryQuantize::Args& args, DeviceId device) {
  const Where where(kName, device);
  Params params{.problem = p, .ranges = make_ranges(p.rows, p.k, p.granularity)};
  TERN_ASSIGN(x, as_rows(where, "x", args.x, p.dtype, p.rows, p.k));
  TERN_ASSIGN(codes, as_rows(where, "codes", args.codes, code_dtype(p.format), p.rows, row_bytes(p.format, p.k)));
  TERN_RETURN_IF_ERROR(check_dense(where, "scales", args.scales, DType::f32, params.ranges.total));
  params.x = args.x.data;
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
        check_dense(where, "given_scale", args.given_scale, DType::f32, one ? 1 : params.ranges.total));
    params.given = static_cast<const float*>(args.given_scale.data);
    params.given_step = one ? 0 : 1;
    TERN_RETURN_IF_ERROR(check_scales(where, "given_scale", params.given, one ? 1 : params.ranges.total));
    TERN_RETURN_IF_ERROR(check_apart(kName, "given_scale", bytes_of(args.given_scale), "codes", codes_bytes));
    TERN_RETURN_IF_ERROR(check_apart(kName, "given_scale", bytes_of(args.given_scale), "scales", scale_bytes));
  }
  return params;
}

Result<Params> Op::bind_rows(const TernaryQuantize::Problem& p, RowRange rows, const TernaryQuantize::Args& args) {
  if (rows.first < 0 || rows.count < 0 || rows.first > p.rows - rows.count)
    return error(Code::invalid_argument, kName, "rows {} to {} are not among the {} of the problem", rows.first,
                 rows.first + rows.count, p.rows);
  TernaryQuantize::Problem piece = p;
  piece.rows = rows.count;
  TERN_ASSIGN(params, bind(piece, args));
  params.first_row = rows.first;
  if (p.granularity == Granularity::tensor() && !p.scale_given && params.ranges.total > 0) {
    TERN_RETURN_IF_ERROR(check_dense(kName, "given_scale", args.given_scale, DType::f32, 1));
    params.given = static_cast<const float*>(args.given_scale.data);
    TERN_RETURN_IF_ERROR(check_scales(kName, "given_scale", params.given, 1));
    params.finite = true;
  }
  return params;
}

Result<Params> Op::bind_scale(const TernaryQuantize::Problem& p, const TernaryQuantize::Args& args) {
  if (p.granularity != Granularity::tensor() || p.scale_given)
    return error(Code::invalid_argument, kName, "scales by {}{} are not one that is computed from all rows",
                 name(p.granularity), p.scale_given ? ", given" : "");
  Params params{.problem = p, .ranges = make_ranges(p.rows, p.k, p.granularity)};
  TERN_ASSIGN(x, as_rows(kName, "x", args.x, p.dtype, p.rows, p.k));
  TERN_RETURN_IF_ERROR(check_dense(kName, "scales", args.scales, DType::f32, params.ranges.total));
  TERN_RETURN_IF_ERROR(check_apart(kName, "x", bytes_of(args.x), "scales", bytes_of(args.scales)));
  params.x = args.x.data;
  params.x_stride = x.stride;
  params.scales = static_cast<float*>(args.scales.data);
  return params;
}

Error ternary_quantize::non_finite_error(const Params& params, std::int64_t index) {
  const std::int64_t row = index / params.problem.k, column = index % params.problem.k;
  const double value = read_element(params.x, params.problem.dtype, row * params.x_stride + column);
  const std::int64_t in_tensor = params.first_row * params.problem.k + index;
  return error_at(in_tensor, Code::non_finite, OpTraits<TernaryQuantize>::kName,
                  "x[{}, {}] (element {}) is {}; mend it, or ask for non_finite = saturate", params.first_row + row,
                  column, in_tensor, value);
}

Error ternary_quantize::scale_error(const Params& params, std::int64_t range, double scale) {
  const std::int64_t per_row = params.ranges.per_row;
  range += params.first_row * per_row;
  const std::string whose = per_row == 0   ? "the tensor"
                            : per_row == 1 ? fmt::format("row {}", range)
                                           : fmt::format("group {} of row {}", range % per_row, range / per_row);
  return with(
      invalid_scale(scale),
      error_at(range, Code::invalid_scale, OpTraits<TernaryQuantize>::kName,
               "the scale of {} is {:.6g}, and the largest f32 is {:.6g}; scales are stored in f32, so make x smaller",
               whose, scale, std::numeric_limits<float>::max()));
}

TernaryQuantize::Problem Op::problem(const ProblemWords& words) {
  return {.rows = words.rows,
          .k = words.k,
          .dtype = words.dtype.value_or(DType::f32),
          .scheme = words.scheme,
          .granularity = words.granularity,
          .format = words.format.value_or(default_format(words.scheme))};
}

}  // namespace tern
