// a*b + c rounded once, for processors without a fused multiply-add instruction.
#pragma once

#include <cstdint>

namespace tern::simd {
namespace {

// The product of two f32 is exact in f64. The sum with c is rounded to odd: if it is inexact, its last bit is set to 1.
// Rounding it to f32, which has 29 bits fewer, then sees on which side of a tie the true sum is.
inline float fused_multiply_add(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b), addend = c;
  const double sum = product + addend;
  const double other = sum - product;  // the addend's part of the sum; `lost` is what rounding cut off (Knuth's TwoSum)
  const double lost = (product - (sum - other)) + (addend - other);
  if (!(lost < 0 || lost > 0)) return static_cast<float>(sum);
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &sum, sizeof bits);
  if ((bits & 1U) == 0) bits += (lost > 0) == (sum > 0) ? 1 : ~std::uint64_t{0};  // away from 0, or towards it
  double odd = 0;
  __builtin_memcpy(&odd, &bits, sizeof odd);
  return static_cast<float>(odd);
}

}  // namespace
}  // namespace tern::simd
