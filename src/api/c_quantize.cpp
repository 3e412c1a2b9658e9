// The C ABI: quantize, dequantize, validate, and quantized tensors as handles.
#include "api/c_handles.h"

namespace tern::c {
namespace {

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

Result<std::span<const float>> to_scales(const char* where, const float* scale, std::size_t scale_count) {
  if ((scale == nullptr) != (scale_count == 0))
    return error(Code::invalid_argument, where, "options->scale is {}NULL but scale_count is {}",
                 scale == nullptr ? "" : "not ", scale_count);
  return std::span(scale, scale_count);
}

Result<std::uint64_t> checksum_of(const char* where, const QuantizedTensor& quantized) {
  for (const Tensor* part : {&quantized.codes, &quantized.scales})
    if (const DeviceId device = part->view().device; device.kind != DeviceKind::cpu)
      return error(Code::invalid_argument, where, "the tensor is on {}; copy it to the host first", name(device));
  return quantized.checksum();
}

}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

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
    return put(out, std::move(q));
  });
}
