// Shapes and strides.
#include "base/checked.h"
#include "base/errors.h"
#include "tern/tensor.h"

namespace tern {

std::string name(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  return text + "]";
}

Result<std::int64_t> element_count(const Shape& shape) {
  if (shape.too_many_axes()) return error(Code::invalid_argument, "shape", "more than {} axes", Shape::kMaxRank);
  bool empty = false;
  for (const std::int64_t size : shape.sizes()) {
    if (size < 0) return error(Code::invalid_argument, "shape", "{} has the negative size {}", name(shape), size);
    empty = empty || size == 0;
  }
  if (empty) return std::int64_t{0};
  std::int64_t count = 1;
  for (const std::int64_t size : shape.sizes()) {
    const auto product = checked_mul(count, size);
    if (!product) return error(Code::invalid_argument, "shape", "{} has more elements than 2^63 - 1", name(shape));
    count = *product;
  }
  return count;
}

Shape dense_strides(const Shape& shape) {
  Shape strides = shape;
  std::int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = stride;
    // Where this overflows, element_count() refuses the shape before a stride is used.
    stride = checked_mul(stride, shape[i] > 1 ? shape[i] : 1).value_or(stride);
  }
  return strides;
}

}  // namespace tern
