// Reads, writes and saturates single elements.
#include "ops/elements.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "simd/half.h"

namespace tern {
namespace {

template <class T>
T load(const std::byte* from) {
  T v{};
  std::memcpy(&v, from, sizeof v);
  return v;
}

double largest(DType dtype) {
  switch (dtype) {
    case DType::f64: return std::numeric_limits<double>::max();
    case DType::f16: return 65504.0;
    case DType::bf16: return static_cast<double>(simd::from_bf16(0x7F7F));
    default: return static_cast<double>(std::numeric_limits<float>::max());
  }
}

}  // namespace

double read_element(const void* x, DType dtype, std::int64_t index) {
  const std::byte* from = element(x, dtype, index);
  switch (dtype) {
    case DType::f64: return load<double>(from);
    case DType::f16: return static_cast<double>(simd::from_f16(load<std::uint16_t>(from)));
    case DType::bf16: return static_cast<double>(simd::from_bf16(load<std::uint16_t>(from)));
    default: return static_cast<double>(load<float>(from));
  }
}

void write_element(void* y, DType dtype, std::int64_t index, double v) {
  void* to = static_cast<std::byte*>(y) + index * static_cast<std::int64_t>(size_of(dtype));
  if (dtype == DType::f64) {
    std::memcpy(to, &v, sizeof v);
  } else if (const auto narrow = static_cast<float>(v); dtype == DType::f32) {
    std::memcpy(to, &narrow, sizeof narrow);
  } else {
    const std::uint16_t half = dtype == DType::f16 ? simd::to_f16(narrow) : simd::to_bf16(narrow);
    std::memcpy(to, &half, sizeof half);
  }
}

double saturated(double v, DType dtype) {
  if (std::isnan(v)) return 0.0;
  return std::isinf(v) ? std::copysign(largest(dtype), v) : v;
}

}  // namespace tern
