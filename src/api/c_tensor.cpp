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
  if (rank != 0) TERN_RETURN_IF_ERROR(not_null(where, {{"shape", sizes}}));
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

tern_granularity face_of(const Granularity& granularity) {
  return {static_cast<tern_granularity_kind>(granularity.kind), granularity.group_size};
}

tern_affine_granularity face_of(const AffineGranularity& granularity) {
  return {static_cast<tern_affine_granularity_kind>(granularity.kind), granularity.axis, granularity.group_size};
}

tern_device_id face_of(DeviceId id) { return {static_cast<tern_device_kind>(id.kind), id.index}; }

tern_tensor_view face_of(const ConstTensorView& view) {
  tern_tensor_view out = TERN_TENSOR_VIEW_INIT;
  out.data = const_cast<void*>(view.data);  // NOLINT(cppcoreguidelines-pro-type-const-cast): C has one view type
  out.dtype = static_cast<tern_dtype>(view.dtype);
  out.rank = view.shape.rank();
  std::ranges::copy(view.shape.sizes(), out.shape);
  std::ranges::copy(view.strides.sizes(), out.strides);
  out.device = face_of(view.device);
  return out;
}

Result<Tensor> allocate_tensor(const Context& context, DType dtype, const Shape& shape) {
  return Tensor::allocate(context.memory(), dtype, shape);
}

}  // namespace tern::c
