// Reads and writes single elements of float tensors of any alignment. dtype is f32, f64, f16 or bf16.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "tern/types.h"

namespace tern {

inline const std::byte* element(const void* x, DType dtype, std::int64_t index) {
  return static_cast<const std::byte*>(x) + index * static_cast<std::int64_t>(size_of(dtype));
}

template <class T>
T load_element(const void* x, std::int64_t index) {
  T v{};
  std::memcpy(&v, static_cast<const std::byte*>(x) + index * static_cast<std::int64_t>(sizeof v), sizeof v);
  return v;
}
template <class T>
void store_element(void* y, std::int64_t index, T v) {
  std::memcpy(static_cast<std::byte*>(y) + index * static_cast<std::int64_t>(sizeof v), &v, sizeof v);
}

// Every type widens to f64 exactly.
inline double read_element(const void* x, DType dtype, std::int64_t index) {
  switch (dtype) {
    case DType::f64: return load_element<double>(x, index);
    case DType::f16: return static_cast<double>(half::from_f16(load_element<std::uint16_t>(x, index)));
    case DType::bf16: return static_cast<double>(half::from_bf16(load_element<std::uint16_t>(x, index)));
    default: return static_cast<double>(load_element<float>(x, index));
  }
}

// Rounds an f64 to f32 such that rounding the result to f16 or bf16 equals rounding the f64 itself. An inexact value
// becomes the neighbour whose last bit is 1 (round to odd). That f32 is never midway between two halves, because halves
// have at least two bits fewer.
inline float to_odd(double v) {
  const auto near = static_cast<float>(v);
  const auto back = static_cast<double>(near);
  const std::uint32_t beyond = std::fabs(back) > std::fabs(v) ? 1 : 0, inexact = back != v ? 1 : 0;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(near) - beyond) | inexact);  // NaN stays NaN
}

// Rounds once, to nearest even.
inline void write_element(void* y, DType dtype, std::int64_t index, double v) {
  switch (dtype) {
    case DType::f64: return store_element(y, index, v);
    case DType::f16: return store_element(y, index, half::to_f16(to_odd(v)));
    case DType::bf16: return store_element(y, index, half::to_bf16(to_odd(v)));
    default: return store_element(y, index, static_cast<float>(v));
  }
}

// The largest finite value of a type, and the smallest above 0.
inline double largest_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return std::numeric_limits<double>::max();
    case DType::f16: return 65504.0;
    case DType::bf16: return static_cast<double>(half::from_bf16(0x7F7F));
    default: return static_cast<double>(std::numeric_limits<float>::max());
  }
}
inline double smallest_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return std::numeric_limits<double>::denorm_min();
    case DType::f16: return 0x1p-24;
    case DType::bf16: return 0x1p-133;
    default: return static_cast<double>(std::numeric_limits<float>::denorm_min());
  }
}

// NaN becomes +0, an infinity the largest finite value of its sign.
inline double saturated(double v, DType dtype) {
  if (std::isfinite(v)) return v;
  return std::isnan(v) ? 0.0 : std::copysign(largest_of(dtype), v);
}

}  // namespace tern
