// Vectors of four f32, which every machine has; four of them at a time, so that sums do not wait for each other.
#include "runtime/error_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ops/elements.h"

namespace tern {
namespace {

using F32x4 = float __attribute__((vector_size(16)));
using U32x4 = std::uint32_t __attribute__((vector_size(16)));
using U16x8 = std::uint16_t __attribute__((vector_size(16)));

constexpr int kStep = 16;    // elements of a step
constexpr int kBlock = 256;  // sixteen adds of a lane, then f64

template <class To, class From>
To as(From v) {
  return std::bit_cast<To>(v);
}

// Magnitudes of sixteen elements.
struct Sixteen {
  F32x4 v[4];
};

Sixteen load_f32(const std::uint8_t* x) {
  Sixteen out;
  std::memcpy(&out, x, sizeof out);
  const U32x4 magnitude = {0x7FFF'FFFFU, 0x7FFF'FFFFU, 0x7FFF'FFFFU, 0x7FFF'FFFFU};
  for (F32x4& v : out.v) v = as<F32x4>(as<U32x4>(v) & magnitude);
  return out;
}

template <bool kBf16>
Sixteen load_half(const std::uint8_t* x) {
  Sixteen out;
  const U16x8 magnitude = U16x8{} + std::uint16_t{0x7FFF}, none = {};
  for (int i = 0; i < 2; ++i) {
    U16x8 bits;
    std::memcpy(&bits, x + 16 * i, sizeof bits);
    bits &= magnitude;
    // The bits as the high half of 32, little-endian.
    const U32x4 low = as<U32x4>(__builtin_shufflevector(none, bits, 0, 8, 1, 9, 2, 10, 3, 11));
    const U32x4 high = as<U32x4>(__builtin_shufflevector(none, bits, 4, 12, 5, 13, 6, 14, 7, 15));
    if constexpr (kBf16) {
      out.v[2 * i] = as<F32x4>(low);
      out.v[2 * i + 1] = as<F32x4>(high);
    } else {  // finite f16: with the exponent's bits in place, 2^-112 of what is meant
      out.v[2 * i] = as<F32x4>(low >> 3) * 0x1p112F;
      out.v[2 * i + 1] = as<F32x4>(high >> 3) * 0x1p112F;
    }
  }
  return out;
}

template <auto kLoad, int kBytes>
ErrorSums sums_of(const std::uint8_t* x, std::int64_t n, float threshold) {
  const F32x4 h = F32x4{} + threshold;
  ErrorSums sums;
  std::int64_t at = 0;
  while (at < n) {
    F32x4 xx[4] = {}, above[4] = {};
    const std::int64_t end = std::min(at + kBlock, n);
    for (; at + kStep <= end; at += kStep) {
      const Sixteen s = kLoad(x + at * kBytes);
      for (int i = 0; i < 4; ++i) {
        xx[i] += s.v[i] * s.v[i];
        above[i] += as<F32x4>(as<U32x4>(s.v[i]) & as<U32x4>(s.v[i] > h));
      }
    }
    if (at < end) {  // zeros do not count
      std::uint8_t rest[kStep * kBytes] = {};
      std::memcpy(rest, x + at * kBytes, static_cast<std::size_t>((end - at) * kBytes));
      const Sixteen s = kLoad(rest);
      for (int i = 0; i < 4; ++i) {
        xx[i] += s.v[i] * s.v[i];
        above[i] += as<F32x4>(as<U32x4>(s.v[i]) & as<U32x4>(s.v[i] > h));
      }
      at = end;
    }
    for (int i = 0; i < 4; ++i)
      for (int l = 0; l < 4; ++l) {
        sums.xx += static_cast<double>(xx[i][l]);
        sums.above += static_cast<double>(above[i][l]);
      }
  }
  return sums;
}

ErrorSums sums_f64(const void* x, std::int64_t n, double threshold) {
  ErrorSums sums;
  for (std::int64_t i = 0; i < n; ++i) {
    const double a = std::fabs(load_element<double>(x, i));
    sums.xx += a * a;
    sums.above += a > threshold ? a : 0;
  }
  return sums;
}

}  // namespace

ErrorSums error_sums(const void* x, DType dtype, std::int64_t n, double threshold) {
  const auto* bytes = static_cast<const std::uint8_t*>(x);
  const auto narrow = static_cast<float>(threshold);
  switch (dtype) {
    case DType::f64: return sums_f64(x, n, threshold);
    case DType::f16: return sums_of<load_half<false>, 2>(bytes, n, narrow);
    case DType::bf16: return sums_of<load_half<true>, 2>(bytes, n, narrow);
    default: return sums_of<load_f32, 4>(bytes, n, narrow);
  }
}

}  // namespace tern
