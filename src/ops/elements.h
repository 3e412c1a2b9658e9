// Elements of float tensors one at a time, whatever their type and alignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tern/types.h"

namespace tern {

inline const std::byte* element(const void* x, DType dtype, std::int64_t index) {
  return static_cast<const std::byte*>(x) + index * static_cast<std::int64_t>(size_of(dtype));
}

// dtype is f32, f64, f16 or bf16; all of them widen exactly.
double read_element(const void* x, DType dtype, std::int64_t index);

// f16 and bf16 are rounded from f32, nearest even: what does not come from an f32 is rounded twice.
void write_element(void* y, DType dtype, std::int64_t index, double v);

// NaN as +0, infinities as the largest finite value of the type.
double saturated(double v, DType dtype);

}  // namespace tern
