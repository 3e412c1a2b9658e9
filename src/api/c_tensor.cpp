// The C ABI: tensor views, owning tensors, affine scales, and the conversions of small values.
#include "api/c_handles.h"

namespace tern::c {

Result<Granularity> to_granularity(const char* where, const tern_granularity& granularity) {
  TERN_ASSIGN(kind, to_enum(where, "granularity.kind", granularity.kind, Granularity::Kind::group));
  return Granularity{kind, granularity.group_size};
}

Result<AffineGranularity> to_affine_granularity(const char* where, const char* field,
                                                const tern_affine_granularity& granularity) {
  TERN_ASSIGN(kind, to_enum(where, field, granularity.kind, AffineGranularity::Kind::group, ".kind"));
  return AffineGranularity{kind, granularity.axis, granularity.group_size};
}

Result<DeviceId> to_device(const char* where, const char* field, tern_device_id id, const char* member) {
  TERN_ASSIGN(kind, to_enum(where, field, id.kind, DeviceKind::cuda, member));
  return DeviceId{kind, id.index};
}

Result<Shape> to_shape(const char* where, const char* field, std::int32_t rank, const std::int64_t* sizes) {
  if (rank < 0 || rank > Shape::kMaxRank)
    return error(Code::invalid_argument, where, "the rank of {} is {}, not one of 0 to {}", field, rank,
                 Shape::kMaxRank);
  return Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)));
}

Result<TensorView> to_view(const char* where, const char* field, const tern_tensor_view& view) {
  TERN_ASSIGN(dtype, to_enum(where, field, view.dtype, kLastDType, ".dtype"));
  TERN_ASSIGN(device, to_device(where, field, view.device, ".device.kind"));
  TERN_ASSIGN(shape, to_shape(where, field, view.rank, view.shape));
  TERN_ASSIGN(strides, to_shape(where, field, view.rank, view.strides));
  const auto given = strides.sizes();
  if (std::ranges::all_of(given, [](std::int64_t stride) { return stride == 0; }))
    return TensorView(view.data, dtype, shape, device);
  return TensorView(view.data, dtype, shape, strides, device);
}

Result<Preference> to_preference(const char* where, const tern_preference* preference) {
  TERN_ASSIGN(given, read_struct(where, "preference", preference));
  TERN_ASSIGN(tuning, read_struct(where, "preference->tuning", given.tuning));
  TERN_ASSIGN(grid, to_enum(where, "preference->tuning->grid", tuning.grid, kLastGridStrategy));
  if (tuning.dependent_launch < -1 || tuning.dependent_launch > 1)
    return error(Code::invalid_argument, where, "preference->tuning->dependent_launch is {}, not one of -1 to 1",
                 tuning.dependent_launch);
  if (tuning.ahead_bytes < -1)
    return error(Code::invalid_argument, where, "preference->tuning->ahead_bytes is {}, not -1 or more",
                 tuning.ahead_bytes);
  Tuning cpp{.threads = tuning.threads, .grid = grid, .split = tuning.split, .streams = tuning.streams};
  if (tuning.ahead_bytes >= 0) cpp.ahead_bytes = tuning.ahead_bytes;
  if (tuning.dependent_launch >= 0) cpp.dependent_launch = tuning.dependent_launch == 1;
  return Preference{given.kernel == nullptr ? "" : given.kernel, given.strict != 0, cpp};
}

tern_granularity from_granularity(const Granularity& granularity) {
  return {static_cast<tern_granularity_kind>(granularity.kind), granularity.group_size};
}

tern_device_id from_device(DeviceId id) { return {static_cast<tern_device_kind>(id.kind), id.index}; }

tern_tensor_view from_view(const ConstTensorView& view) {
  tern_tensor_view out = TERN_TENSOR_VIEW_INIT;
  out.data = const_cast<void*>(view.data);  // NOLINT(cppcoreguidelines-pro-type-const-cast): C has one view type
  out.dtype = static_cast<tern_dtype>(view.dtype);
  out.rank = view.shape.rank();
  std::ranges::copy(view.shape.sizes(), out.shape);
  std::ranges::copy(view.strides.sizes(), out.strides);
  out.device = from_device(view.device);
  return out;
}

}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

tern_status tern_tensor_allocate(const tern_context* context, tern_dtype dtype, int32_t rank, const int64_t* shape,
                                 tern_tensor** out) {
  return guarded("tern_tensor_allocate", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}}));
    if (rank != 0) TERN_RETURN_IF_ERROR(not_null(where, {{"shape", shape}}));
    TERN_ASSIGN(cpp_dtype, to_enum(where, "dtype", dtype, kLastDType));
    TERN_ASSIGN(cpp_shape, to_shape(where, "the tensor", rank, shape));
    TERN_ASSIGN(tensor, Tensor::allocate(context->context.memory(), cpp_dtype, cpp_shape));
    *out = new tern_tensor{std::move(tensor)};
    return {};
  });
}

tern_status tern_affine_granularity_parse(const char* text, tern_affine_granularity* out) {
  return parse("tern_affine_granularity_parse", text, out, parse_affine_granularity, [](const AffineGranularity& g) {
    return tern_affine_granularity{static_cast<tern_affine_granularity_kind>(g.kind), g.axis, g.group_size};
  });
}

tern_status tern_affine_scale_count(int32_t rank, const int64_t* shape, tern_affine_granularity granularity,
                                    int64_t* out) {
  return guarded("tern_affine_scale_count", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"out", out}}));
    if (rank != 0) TERN_RETURN_IF_ERROR(not_null(where, {{"shape", shape}}));
    TERN_ASSIGN(sizes, to_shape(where, "shape", rank, shape));
    TERN_ASSIGN(kind, to_affine_granularity(where, "granularity", granularity));
    TERN_ASSIGN(count, affine_scale_count(sizes, kind));
    *out = count;
    return {};
  });
}
