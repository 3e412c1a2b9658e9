// Checks of tensor views that every op makes before it touches memory.
#pragma once

#include <cstdint>
#include <string_view>

#include "tern/status.h"
#include "tern/tensor.h"

namespace tern {

// The op that checks, and the device that its tensors must be on.
struct Where {
  std::string_view op;
  DeviceId device;
  // NOLINTNEXTLINE(google-explicit-constructor): most callers pass only the op
  Where(std::string_view op_, DeviceId device_ = {}) : op(op_), device(device_) {}
};

// A view seen as rows of k contiguous elements.
struct RowView {
  std::int64_t rows = 0;
  std::int64_t k = 0;
  std::int64_t stride = 0;  // elements from one row to the next
};

// Folds the leading axes of a view into rows. The last axis must be contiguous. Errors name the argument: null data,
// wrong dtype, wrong device, a negative size or stride, axes that do not fold, rows that overlap each other.
Result<RowView> as_rows(const Where& where, std::string_view argument, const ConstTensorView& view, DType dtype,
                        std::int64_t rows, std::int64_t k);

// check_strided: the view has exactly this shape, with any strides. check_distinct, for outputs: no two elements of the
// view share an address.
Status check_strided(const Where& where, std::string_view argument, const ConstTensorView& view, DType dtype,
                     const Shape& shape);
Status check_distinct(const Where& where, std::string_view argument, const ConstTensorView& view);

// The view is dense and has exactly `count` elements, in any shape.
Status check_dense(const Where& where, std::string_view argument, const ConstTensorView& view, DType dtype,
                   std::int64_t count);

// The bytes that a view covers, to tell whether two views overlap.
struct ByteSpan {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};
ByteSpan bytes_of(const ConstTensorView& view);

// An error when the two share a byte.
Status check_apart(std::string_view op, std::string_view a_name, ByteSpan a, std::string_view b_name, ByteSpan b);

}  // namespace tern
