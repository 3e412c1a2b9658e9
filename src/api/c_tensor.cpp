// The C ABI: tensor views, owning tensors, and the conversions of small values.
#include "api/c_abi.h"

namespace tern::c {

Result<Granularity> to_granularity(const char* where, const tern_granularity& granularity) {
  TERN_ASSIGN(kind, to_enum(where, "granularity.kind", granularity.kind, Granularity::Kind::group));
  return Granularity{kind, granularity.group_size};
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

tern_tuning from_tuning(const Tuning& tuning) {
  return {.struct_size = sizeof(tern_tuning),
          .threads = tuning.threads,
          .grid = static_cast<tern_grid_strategy>(tuning.grid),
          .split = tuning.split,
          .dependent_launch = tuning.dependent_launch ? static_cast<std::int32_t>(*tuning.dependent_launch) : -1,
          .streams = tuning.streams,
          .ahead_bytes = tuning.ahead_bytes.value_or(-1)};
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

tern_quality from_quality(const Quality& quality) {
  tern_quality out = TERN_QUALITY_INIT;
  out.sqnr_db = quality.sqnr_db.value_or(NAN);
  out.cosine = quality.cosine.value_or(NAN);
  out.zero_fraction = quality.zero_fraction;
  return out;
}

std::vector<const char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<const char*> pointers;
  for (const std::string& s : strings) pointers.push_back(s.c_str());
  return pointers;
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

tern_status tern_tensor_get_view(const tern_tensor* tensor, tern_tensor_view* out) {
  return guarded("tern_tensor_get_view", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"tensor", tensor}, {"out", out}}));
    *out = from_view(tensor->tensor.view());
    return {};
  });
}

tern_status tern_tensor_to(const tern_tensor* tensor, const tern_context* context, tern_tensor** out) {
  return guarded("tern_tensor_to", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"tensor", tensor}, {"context", context}}));
    TERN_ASSIGN(copy, tensor->tensor.to(context->context));
    *out = new tern_tensor{std::move(copy)};
    return {};
  });
}

void tern_tensor_destroy(tern_tensor* tensor) { delete tensor; }
