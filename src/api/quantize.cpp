// quantize() and dequantize(): allocate, plan, run, check.
#include "tern/quantize.h"
#include "base/errors.h"
#include "format/format.h"
#include "ops/ranges.h"
#include "plan/run_once.h"

namespace tern {
namespace {

constexpr std::string_view kQuantize = "quantize";

Shape scale_shape(const QuantizedTensor& q, const Ranges& ranges) {
  if (ranges.per_row == 0) return {ranges.total};
  return {q.rows(), ranges.per_row};
}

Status check_tolerance(const Quality& quality, const Tolerance& limit) {
  const auto missed = [](std::string_view what, double value, std::string_view relation, double bound) {
    return error(Code::quality_below_limit, kQuantize, "{} is {:.6g}, {} the limit of {:.6g}", what, value, relation,
                 bound);
  };
  // An undefined figure (an all-zero input) lost nothing.
  if (limit.min_sqnr_db && quality.sqnr_db && !(*quality.sqnr_db >= *limit.min_sqnr_db))
    return missed("SQNR in dB", *quality.sqnr_db, "below", *limit.min_sqnr_db);
  if (limit.min_cosine && quality.cosine && !(*quality.cosine >= *limit.min_cosine))
    return missed("cosine", *quality.cosine, "below", *limit.min_cosine);
  if (limit.max_zero_fraction && !(quality.zero_fraction <= *limit.max_zero_fraction))
    return missed("the fraction of zeros", quality.zero_fraction, "above", *limit.max_zero_fraction);
  return {};
}

}  // namespace

Result<QuantizedTensor> quantize(const Context& context, const ConstTensorView& x, const QuantizeOptions& options) {
  TERN_ASSIGN(elements, element_count(x.shape));
  if (elements == 0) return error(Code::empty_input, kQuantize, "x is {}: nothing to quantize", name(x.shape));

  QuantizedTensor q;
  q.shape = x.shape;
  q.scheme = options.scheme;
  q.format = options.format.value_or(default_format(options.scheme));
  q.granularity = options.granularity;
  const TernaryQuantize::Problem problem{.rows = q.rows(),
                                         .k = q.k(),
                                         .dtype = x.dtype,
                                         .scheme = q.scheme,
                                         .granularity = q.granularity,
                                         .format = q.format,
                                         .non_finite = options.non_finite,
                                         .scale_given = !options.scale.empty()};
  TERN_ASSIGN(plan, TernaryQuantizePlan::select(context, problem, options.preference));
  q.kernel = plan.id().kernel;

  const Ranges ranges = make_ranges(problem.rows, problem.k, q.granularity);
  TERN_ASSIGN(codes, Tensor::allocate(context.memory(), code_dtype(q.format),
                                      {problem.rows, row_bytes(q.format, problem.k)}, "codes"));
  TERN_ASSIGN(scales, Tensor::allocate(context.memory(), DType::f32, scale_shape(q, ranges), "scales"));
  q.codes = std::move(codes);
  q.scales = std::move(scales);
  TERN_RETURN_IF_ERROR(run_once(
      context, plan,
      {.x = x,
       .codes = q.codes.view(),
       .scales = q.scales.view(),
       .given_scale = {options.scale.data(), DType::f32, Shape{static_cast<std::int64_t>(options.scale.size())}}}));
  if (options.measure_quality || options.tolerance.any()) {
    TERN_ASSIGN(quality, measure_quality(context, x, q, options.non_finite));
    q.quality = quality;
    TERN_RETURN_IF_ERROR(check_tolerance(quality, options.tolerance));
  }
  return q;
}

Result<Tensor> dequantize(const Context& context, const QuantizedTensor& q, DType dtype) {
  TERN_RETURN_IF_ERROR(validate(q));
  const TernaryDequantize::Problem problem{.rows = q.rows(),
                                           .k = q.k(),
                                           .dtype = dtype,
                                           .scheme = q.scheme,
                                           .granularity = q.granularity,
                                           .format = q.format};
  TERN_ASSIGN(plan, TernaryDequantizePlan::select(context, problem));
  TERN_ASSIGN(y, Tensor::allocate(context.memory(), dtype, q.shape, "dequantized"));
  TERN_RETURN_IF_ERROR(run_once(context, plan, {.codes = q.codes.view(), .scales = q.scales.view(), .y = y.view()}));
  return y;
}

}  // namespace tern
