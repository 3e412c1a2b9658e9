// Checks of tensor views that every op makes before it touches memory.
#pragma once

#include <cstdint>
#include <string_view>

#include "tern/status.h"
#include "tern/tensor.h"

namespace tern {

// Who checks: the op, and the device that its tensors must lie on.
struct Where {
  std::string_view op;
  DeviceId device;
  // NOLINTNEXTLINE(google-explicit-constructor): most callers have the op alone
  Where(std::string_view op_, DeviceId device_ = {}) : op(op_), device(device_) {}
};

// A view seen as rows of k contiguous elements.
struct RowView {
  std::int64_t rows = 0;
  std::int64_t k = 0;
  std::int64_t stride = 0;  // elements from one row to the next
};

// Null data, wrong dtype, wrong device, a negative size or overlap with itself are errors that name the argument.
// Leading axes fold into rows; the last axis must be contiguous and the leading ones foldable.
Result<RowView> as_rows(const Where& where, std::string_view argument, const ConstTensorView& view, DType dtype,
                        std::int64_t rows, std::int64_t k);

// A view of exactly this shape, with any strides; those of an output must not let two elements share a place.
Status check_strided(const Where& where, std::string_view argument, const ConstTensorView& view, DType dtype,
                     const Shape& shape);
Status check_distinct(const Where& where, std::string_view argument, const ConstTensorView& view);

// A dense view of exactly `count` elements in any shape.
Status check_dense(const Where& where, std::string_view argument, const ConstTensorView& view, DType dtype,
                   std::int64_t count);

// Every scale finite and above 0; the first that is not is an invalid_scale. Those on a GPU its kernels look at.
Status check_scales(const Where& where, std::string_view argument, const float* scales, std::int64_t count);

// The bytes a view reaches, to tell whether two overlap.
struct ByteSpan {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};
ByteSpan bytes_of(const ConstTensorView& view);

// An error when the two share a byte.
Status check_apart(std::string_view op, std::string_view a_name, ByteSpan a, std::string_view b_name, ByteSpan b);

}  // namespace tern
