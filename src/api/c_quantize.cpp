// The C ABI: quantize, dequantize, validate, and quantized tensors as handles.
#include <cmath>

#include "api/c_abi.h"

namespace tern::c {
namespace {

std::optional<double> limit(double value) { return std::isnan(value) ? std::nullopt : std::optional<double>(value); }

Result<QuantizeOptions> to_options(const char* where, const tern_quantize_options* options) {
  TERN_ASSIGN(given, read_struct(where, "options", options));
  QuantizeOptions cpp;
  TERN_ASSIGN(scheme, to_enum(where, "options->scheme", given.scheme, kLastScheme));
  TERN_ASSIGN(granularity, to_granularity(where, given.granularity));
  TERN_ASSIGN(non_finite, to_enum(where, "options->non_finite", given.non_finite, kLastNonFinite));
  TERN_ASSIGN(preference, to_preference(where, given.preference));
  if (given.format != TERN_FORMAT_DEFAULT) {
    TERN_ASSIGN(format, to_enum(where, "options->format", given.format, kLastFormat));
    cpp.format = format;
  }
  if ((given.scale == nullptr) != (given.scale_count == 0))
    return error(Code::invalid_argument, where, "options->scale is {}NULL but scale_count is {}",
                 given.scale == nullptr ? "" : "not ", given.scale_count);
  cpp.scheme = scheme;
  cpp.granularity = granularity;
  cpp.non_finite = non_finite;
  cpp.scale = {given.scale, given.scale_count};
  cpp.tolerance = {.min_sqnr_db = limit(given.min_sqnr_db),
                   .min_cosine = limit(given.min_cosine),
                   .max_zero_fraction = limit(given.max_zero_fraction)};
  cpp.measure_quality = given.measure_quality != 0;
  cpp.preference = std::move(preference);
  cpp.device_bytes = given.device_bytes;
  cpp.ensure_ready = given.ensure_ready != 0;
  cpp.validate = given.validate != 0;
  return cpp;
}

// Copies a dense part from the caller: a host part to host memory, a GPU part to the context's memory.
Result<Tensor> copy_part(const char* where, const char* field, const tern_context* context,
                         const tern_tensor_view& part) {
  TERN_ASSIGN(view, to_view(where, field, part));
  const bool on_host = view.device.kind == DeviceKind::cpu;
  TERN_ASSIGN(copy, Tensor::allocate(on_host ? host_memory_of(*context) : context->context.memory(), view.dtype,
                                     view.shape, "quantized parts"));
  if (copy.bytes() == 0) return copy;
  if (view.data == nullptr) return error(Code::invalid_argument, where, "{}.data is NULL", field);
  if (view.strides != dense_strides(view.shape))
    return error(Code::invalid_argument, where, "{} has strides {}, but must be dense, {}", field, name(view.strides),
                 name(dense_strides(view.shape)));
  if (on_host) {
    std::memcpy(copy.data(), view.data, copy.bytes());
    return copy;
  }
  TERN_RETURN_IF_ERROR(context->context.copy(copy.view(), view, context->context.stream()));
  TERN_ASSIGN(copied, context->context.event());  // synchronizing the stream would consume its findings
  TERN_RETURN_IF_ERROR(copied.record(context->context.stream()));
  TERN_RETURN_IF_ERROR(copied.synchronize());
  return copy;
}

}  // namespace

Status make_quantized(QuantizedTensor tensor, tern_quantized** out) {
  auto made = std::make_unique<tern_quantized>(tern_quantized{std::move(tensor), TERN_QUALITY_INIT, {}});
  const QuantizedTensor& q = made->tensor;
  tern_quantized_info& info = made->info;
  info.struct_size = sizeof(tern_quantized_info);
  info.codes = from_view(q.codes.view());
  info.scales = from_view(q.scales.view());
  info.codes_bytes = q.codes.bytes();
  info.scale_count = static_cast<std::size_t>(q.scales.elements());
  std::ranges::copy(q.shape.sizes(), info.shape);
  info.rank = q.shape.rank();
  info.scheme = static_cast<tern_scheme>(q.scheme);
  info.format = static_cast<tern_format>(q.format);
  info.granularity = from_granularity(q.granularity);
  info.rows = q.rows();
  info.k = q.k();
  info.block_size = q.block_size();
  info.kernel = q.kernel.c_str();
  if (q.quality) {
    made->quality = from_quality(*q.quality);
    info.quality = &made->quality;
  }
  *out = made.release();
  return {};
}

}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

tern_status tern_quantize(const tern_context* context, const tern_tensor_view* x, const tern_quantize_options* options,
                          tern_quantized** out) {
  return guarded("tern_quantize", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}, {"x", x}}));
    TERN_ASSIGN(view, to_view(where, "x", *x));
    TERN_ASSIGN(cpp_options, to_options(where, options));
    const ParallelForWatch watch;
    TERN_ASSIGN(quantized, quantize(context->context, view, cpp_options));
    TERN_RETURN_IF_ERROR(watch.status(where));
    return make_quantized(std::move(quantized), out);
  });
}

tern_status tern_dequantize(const tern_context* context, const tern_quantized* quantized, tern_dtype dtype,
                            tern_tensor** out) {
  return guarded("tern_dequantize", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}, {"quantized", quantized}}));
    TERN_ASSIGN(cpp_dtype, to_enum(where, "dtype", dtype, kLastDType));
    const ParallelForWatch watch;
    TERN_ASSIGN(tensor, dequantize(context->context, quantized->tensor, cpp_dtype));
    TERN_RETURN_IF_ERROR(watch.status(where));
    *out = new tern_tensor{std::move(tensor)};
    return {};
  });
}

tern_status tern_quantized_from_parts(const tern_context* context, const tern_quantized_parts* parts,
                                      tern_quantized** out) {
  return guarded("tern_quantized_from_parts", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}, {"parts", parts}}));
    TERN_ASSIGN(given, read_struct(where, "parts", parts));
    QuantizedTensor q;
    TERN_ASSIGN(shape, to_shape(where, "the original", given.rank, given.shape));
    TERN_ASSIGN(scheme, to_enum(where, "parts->scheme", given.scheme, kLastScheme));
    TERN_ASSIGN(format, to_enum(where, "parts->format", given.format, kLastFormat));
    TERN_ASSIGN(granularity, to_granularity(where, given.granularity));
    // Check what rows(), k() and block_size() rely on; tern_validate() checks the rest.
    TERN_ASSIGN(elements, element_count(shape));
    if (elements == 0) return error(Code::empty_input, where, "the original is {}: no elements", name(shape));
    if (granularity.kind == Granularity::Kind::group && granularity.group_size < 1)
      return error(Code::invalid_argument, where, "group size is {}; it must be at least 1", granularity.group_size);
    TERN_ASSIGN(codes, copy_part(where, "codes", context, given.codes));
    TERN_ASSIGN(scales, copy_part(where, "scales", context, given.scales));
    q.codes = std::move(codes);
    q.scales = std::move(scales);
    q.shape = shape;
    q.scheme = scheme;
    q.format = format;
    q.granularity = granularity;
    return make_quantized(std::move(q), out);
  });
}

void tern_quantized_destroy(tern_quantized* quantized) { delete quantized; }

tern_status tern_quantized_get_info(const tern_quantized* quantized, const tern_quantized_info** out) {
  return hand_out("tern_quantized_get_info", "quantized", quantized, &tern_quantized::info, out);
}

tern_status tern_quantized_checksum(const tern_quantized* quantized, uint64_t* out) {
  return guarded("tern_quantized_checksum", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"quantized", quantized}, {"out", out}}));
    for (const Tensor* part : {&quantized->tensor.codes, &quantized->tensor.scales})
      if (const DeviceId device = part->view().device; device.kind != DeviceKind::cpu)
        return error(Code::invalid_argument, where, "the tensor is on {}; copy it to the host first", name(device));
    *out = quantized->tensor.checksum();
    return {};
  });
}

tern_status tern_validate(const tern_quantized* quantized) {
  return guarded("tern_validate", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"quantized", quantized}}));
    return validate(quantized->tensor);
  });
}

tern_status tern_measure_quality(const tern_context* context, const tern_tensor_view* x,
                                 const tern_quantized* quantized, tern_non_finite non_finite, tern_quality* out) {
  return guarded("tern_measure_quality", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"context", context}, {"x", x}, {"quantized", quantized}, {"out", out}}));
    TERN_RETURN_IF_ERROR(check_struct_size(where, "out", out));
    TERN_ASSIGN(view, to_view(where, "x", *x));
    TERN_ASSIGN(policy, to_enum(where, "non_finite", non_finite, kLastNonFinite));
    const ParallelForWatch watch;
    TERN_ASSIGN(quality, measure_quality(context->context, view, quantized->tensor, policy));
    TERN_RETURN_IF_ERROR(watch.status(where));
    write_struct(from_quality(quality), out);
    return {};
  });
}
