// quantize() and dequantize(): allocate, plan, run, check.
#include "tern/quantize.h"
#include "base/errors.h"
#include "format/format.h"
#include "format/ranges.h"
#include "plan/gpu_quantize.h"
#include "plan/run_once.h"

namespace tern {
namespace {

constexpr std::string_view kQuantize = "quantize";

Shape scale_shape(const QuantizedTensor& q, const Ranges& ranges) {
  if (ranges.per_row == 0) return {ranges.total};
  return {q.rows(), ranges.per_row};
}

Status check_tolerance(const Quality& quality, const Tolerance& limit) {
  const auto missed = [](std::string_view what, double value, std::string_view relation, double bound,
                         std::string_view unit = "") {
    return error(Code::quality_below_limit, kQuantize, "{} is {:.6g}{}, {} the limit of {:.6g}{}", what, value, unit,
                 relation, bound, unit);
  };
  // An undefined figure, such as that of an all-zero input, does not miss a limit.
  if (limit.min_sqnr_db && quality.sqnr_db && !(*quality.sqnr_db >= *limit.min_sqnr_db))
    return missed("the SQNR", *quality.sqnr_db, "below", *limit.min_sqnr_db, " dB");
  if (limit.min_cosine && quality.cosine && !(*quality.cosine >= *limit.min_cosine))
    return missed("the cosine", *quality.cosine, "below", *limit.min_cosine);
  if (limit.max_zero_fraction && !(quality.zero_fraction <= *limit.max_zero_fraction))
    return missed("the fraction of zeros", quality.zero_fraction, "above", *limit.max_zero_fraction);
  return {};
}

// Allocates codes and scales of the right sizes.
Status allocate_outputs(const std::shared_ptr<MemoryResource>& memory, QuantizedTensor& q) {
  const std::int64_t rows = q.rows(), k = q.k();
  TERN_ASSIGN(codes, Tensor::allocate(memory, code_dtype(q.format), {rows, row_bytes(q.format, k)}, "codes"));
  TERN_ASSIGN(scales,
              Tensor::allocate(memory, DType::f32, scale_shape(q, make_ranges(rows, k, q.granularity)), "scales"));
  q.codes = std::move(codes);
  q.scales = std::move(scales);
  return {};
}

// Copies the caller's scales to the context's device.
Result<Tensor> given_scales(const Context& context, std::span<const float> scales) {
  TERN_ASSIGN(tensor, context.allocate(DType::f32, {static_cast<std::int64_t>(scales.size())}, "given scales"));
  TERN_RETURN_IF_ERROR(context.copy(tensor.view(), {scales.data(), DType::f32, tensor.shape()}, context.stream()));
  return tensor;
}

// Validates the result; if it is on a GPU, on a copy in host memory.
Status validate_written(const QuantizedTensor& q) {
  if (q.codes.view().device.kind == DeviceKind::cpu) return validate(q);
  TERN_ASSIGN(host, Context::open(DeviceId{}, {.threads = 1}));
  QuantizedTensor copy{
      .shape = q.shape, .scheme = q.scheme, .format = q.format, .granularity = q.granularity, .kernel = q.kernel};
  TERN_ASSIGN(codes, q.codes.to(host));
  TERN_ASSIGN(scales, q.scales.to(host));
  copy.codes = std::move(codes);
  copy.scales = std::move(scales);
  return validate(copy);
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

  const bool on_gpu = context.device().id.kind == DeviceKind::cuda, x_on_host = x.device.kind == DeviceKind::cpu;
  if (on_gpu && options.ensure_ready)
    TERN_RETURN_IF_ERROR(
        context.ensure_ready(quantize_device_bytes(problem, x_on_host, plan.workspace_bytes(), options)));
  if (on_gpu && x_on_host) {
    TERN_RETURN_IF_ERROR(allocate_outputs(host_memory(), q));
    TERN_RETURN_IF_ERROR(quantize_in_pieces(context, problem, x, options, q));
  } else {
    TERN_RETURN_IF_ERROR(allocate_outputs(context.memory(), q));
    TERN_ASSIGN(given, given_scales(context, options.scale));
    TERN_RETURN_IF_ERROR(run_once(
        context, plan, {.x = x, .codes = q.codes.view(), .scales = q.scales.view(), .given_scale = given.view()}));
  }
  if (options.validate) TERN_RETURN_IF_ERROR(validate_written(q));
  if (options.measure_quality || options.tolerance.any()) {
    TERN_ASSIGN(quality, measure_quality(context, x, q, options.non_finite));
    q.quality = quality;
    TERN_RETURN_IF_ERROR(check_tolerance(quality, options.tolerance));
  }
  return q;
}

Result<Tensor> dequantize(const Context& context, const QuantizedTensor& q, DType dtype) {
  const bool on_host = q.codes.view().device.kind == DeviceKind::cpu;
  if (on_host) TERN_RETURN_IF_ERROR(validate(q));  // GPU kernels check the codes themselves
  const TernaryDequantize::Problem problem{.rows = q.rows(),
                                           .k = q.k(),
                                           .dtype = dtype,
                                           .scheme = q.scheme,
                                           .granularity = q.granularity,
                                           .format = q.format};
  TERN_ASSIGN(plan, TernaryDequantizePlan::select(context, problem));
  TERN_ASSIGN(y, context.allocate(dtype, q.shape, "dequantized"));
  if (!on_host || context.device().id.kind == DeviceKind::cpu) {
    TERN_RETURN_IF_ERROR(run_once(context, plan, {.codes = q.codes.view(), .scales = q.scales.view(), .y = y.view()}));
    return y;
  }
  TERN_ASSIGN(codes, q.codes.to(context));
  TERN_ASSIGN(scales, q.scales.to(context));
  TERN_RETURN_IF_ERROR(run_once(context, plan, {.codes = codes.view(), .scales = scales.view(), .y = y.view()}));
  TERN_ASSIGN(cpu, Context::open(DeviceId{}, {.threads = 1}));
  return y.to(cpu);
}

}  // namespace tern
