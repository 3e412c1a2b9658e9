// Checks of tensor views.
#include "base/views.h"

#include <limits>
#include <map>

#include "base/checked.h"
#include "base/errors.h"

namespace tern {
namespace {

// Bytes from the start of the first element to the end of the last; nullopt on overflow.
std::optional<std::int64_t> reach_bytes(const ConstTensorView& view) {
  std::int64_t last = 0;
  for (int axis = 0; axis < view.shape.rank(); ++axis) {
    if (view.shape[axis] == 0) return 0;
    const auto step = checked_mul(view.shape[axis] - 1, view.strides[axis]);
    if (!step) return std::nullopt;
    const auto sum = checked_add(last, *step);
    if (!sum) return std::nullopt;
    last = *sum;
  }
  const auto count = checked_add(last, 1);
  return count ? checked_mul(*count, static_cast<std::int64_t>(size_of(view.dtype))) : std::nullopt;
}

// The checks that every view needs, whatever its layout.
Status check_view(const Where& where, std::string_view argument, const ConstTensorView& view, DType dtype,
                  std::int64_t elements) {
  const std::string_view op = where.op;
  if (view.dtype != dtype)
    return error(Code::invalid_argument, op, "{} is {}, the problem says {}", argument, name(view.dtype), name(dtype));
  if (elements > 0 && view.device != where.device)
    return error(Code::invalid_argument, op, "{} lies on {}, this plan runs on {}", argument, name(view.device),
                 where.device.kind == DeviceKind::cpu ? "the cpu" : name(where.device));
  auto count = element_count(view.shape);
  if (!count.ok()) return error(Code::invalid_argument, op, "{}: {}", argument, count.error().message);
  if (*count != elements)
    return error(Code::invalid_argument, op, "{} is {}: {} elements, the problem needs {}", argument, name(view.shape),
                 *count, elements);
  if (view.strides.rank() != view.shape.rank())
    return error(Code::invalid_argument, op, "{} has {} axes but {} strides", argument, view.shape.rank(),
                 view.strides.rank());
  for (int axis = 0; axis < view.shape.rank(); ++axis)
    if (view.strides[axis] < 0)
      return error(Code::invalid_argument, op, "{} has the negative stride {}; copy it to rows in order first",
                   argument, view.strides[axis]);
  if (elements > 0 && view.data == nullptr) return error(Code::invalid_argument, op, "{} is null", argument);
  if (where.device.kind == DeviceKind::cuda && elements > 0 &&
      reinterpret_cast<std::uintptr_t>(view.data) % size_of(view.dtype) != 0)
    return error(Code::invalid_argument, op, "{} begins between two elements of {} bytes, which no GPU can read",
                 argument, size_of(view.dtype));
  const auto reach = reach_bytes(view);
  if (!reach) return error(Code::invalid_argument, op, "{} {} reaches over 2^63 bytes", argument, name(view.shape));
  if (reinterpret_cast<std::uintptr_t>(view.data) >
      std::numeric_limits<std::uintptr_t>::max() - static_cast<std::uintptr_t>(*reach))
    return error(Code::invalid_argument, op, "{} reaches beyond the address space", argument);
  return {};
}

}  // namespace

Result<RowView> as_rows(const Where& where, std::string_view argument, const ConstTensorView& view, DType dtype,
                        std::int64_t rows, std::int64_t k) {
  TERN_RETURN_IF_ERROR(check_view(where, argument, view, dtype, rows * k));
  const std::string_view op = where.op;
  if (rows == 0 || k == 0) return RowView{rows, k, k};
  const int rank = view.shape.rank();
  const std::int64_t last = rank == 0 ? 1 : view.shape[rank - 1];
  if (last != k)
    return error(Code::invalid_argument, op, "{} is {}: its last axis is {}, the problem says {}", argument,
                 name(view.shape), last, k);
  if (k > 1 && view.strides[rank - 1] != 1)
    return error(Code::invalid_argument, op, "{} has stride {} along its last axis; make it contiguous there first",
                 argument, view.strides[rank - 1]);
  // Fold the leading axes from the innermost outwards; the stride of an axis of size 1 does not matter.
  std::int64_t stride = 0, folded = 1;
  for (int axis = rank - 2; axis >= 0; --axis) {
    if (view.shape[axis] == 1) continue;
    if (folded == 1)
      stride = view.strides[axis];
    else if (view.strides[axis] != stride * folded)
      return error(Code::invalid_argument, op, "{} {} with strides {} is not a set of evenly spaced rows", argument,
                   name(view.shape), name(view.strides));
    folded *= view.shape[axis];
  }
  if (folded == 1) stride = k;
  if (stride < k)
    return error(Code::invalid_argument, op, "{} has rows of {} elements only {} apart", argument, k, stride);
  return RowView{rows, k, stride};
}

Status check_strided(const Where& where, std::string_view argument, const ConstTensorView& view, DType dtype,
                     const Shape& shape) {
  TERN_ASSIGN(elements, element_count(shape));
  TERN_RETURN_IF_ERROR(check_view(where, argument, view, dtype, elements));
  if (view.shape != shape)
    return error(Code::invalid_argument, where.op, "{} is {}, the problem says {}", argument, name(view.shape),
                 name(shape));
  return {};
}

Status check_distinct(const Where& where, std::string_view argument, const ConstTensorView& view) {
  // In ascending order, every stride must step over everything that the smaller ones reach.
  std::multimap<std::int64_t, std::int64_t> axes;  // size by stride
  for (int axis = 0; axis < view.shape.rank(); ++axis) {
    if (view.shape[axis] == 0) return {};
    if (view.shape[axis] > 1) axes.emplace(view.strides[axis], view.shape[axis]);
  }
  std::int64_t reach = 1;
  for (const auto& [stride, size] : axes) {
    if (stride < reach)
      return error(Code::invalid_argument, where.op, "{} {} with strides {} overlaps itself", argument,
                   name(view.shape), name(view.strides));
    reach += (size - 1) * stride;
  }
  return {};
}

Status check_dense(const Where& where, std::string_view argument, const ConstTensorView& view, DType dtype,
                   std::int64_t count) {
  TERN_RETURN_IF_ERROR(check_view(where, argument, view, dtype, count));
  if (count == 0) return {};
  const Shape dense = dense_strides(view.shape);
  for (int axis = 0; axis < view.shape.rank(); ++axis)
    if (view.shape[axis] > 1 && view.strides[axis] != dense[axis])
      return error(Code::invalid_argument, where.op, "{} is not dense: strides {} for {}; copy it first", argument,
                   name(view.strides), name(view.shape));
  return {};
}

ByteSpan bytes_of(const ConstTensorView& view) {
  const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
  return {begin, begin + static_cast<std::uintptr_t>(reach_bytes(view).value_or(0))};
}

Status check_apart(std::string_view op, std::string_view a_name, ByteSpan a, std::string_view b_name, ByteSpan b) {
  if (a.begin < a.end && b.begin < b.end && a.begin < b.end && b.begin < a.end)
    return error(Code::invalid_argument, op, "{} and {} overlap; each needs memory of its own", a_name, b_name);
  return {};
}

}  // namespace tern
