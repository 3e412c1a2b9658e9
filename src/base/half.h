// f16 and bf16 as bits: exact widening, and rounding to nearest even with denormals kept.
#pragma once

#include <cstdint>

namespace tern::half {
namespace {

inline float from_bf16(std::uint16_t h) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(h) << 16); }

inline std::uint16_t to_bf16(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  if ((bits & 0x7FFF'FFFFU) > 0x7F80'0000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);  // a quiet NaN
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

//     f16    s eeeee mmmmmmmmmm     bias 15
//     f32    s eeeeeeee mmm...m     bias 127
inline float from_f16(std::uint16_t h) {
  const std::uint32_t sign = (h & 0x8000U) << 16, rest = h & 0x7FFFU;
  if (rest >= 0x7C00U)  // infinity, or NaN, made quiet as the hardware does
    return __builtin_bit_cast(float,
                              sign | 0x7F80'0000U | ((rest & 0x3FFU) << 13) | (rest > 0x7C00U ? 0x40'0000U : 0U));
  // Read as an f32, the shifted bits are the value times 2^-112; this includes denormals.
  const float scaled = __builtin_bit_cast(float, rest << 13) * 0x1p112F;
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, scaled) | sign);
}

inline std::uint16_t to_f16(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t sign = (bits >> 16) & 0x8000U, magnitude = bits & 0x7FFF'FFFFU;
  if (magnitude > 0x7F80'0000U) return static_cast<std::uint16_t>(sign | 0x7E00U | ((magnitude >> 13) & 0x3FFU));
  if (magnitude >= 0x477F'F000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // rounds to 2^16 or more: infinity
  if (magnitude < 0x3880'0000U) {                                       // below 2^-14: rounds to a multiple of 2^-24
    const float shifted = __builtin_bit_cast(float, magnitude) + 0.5F;  // the ulp of 0.5 is 2^-24
    return static_cast<std::uint16_t>(sign | (__builtin_bit_cast(std::uint32_t, shifted) - 0x3F00'0000U));
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x3800'0000U) >> 13));
}

}  // namespace
}  // namespace tern::half
