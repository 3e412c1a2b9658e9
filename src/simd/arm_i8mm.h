// Vector operations for NEON with int8 matrix products (2 x 8 by 8 x 2, accumulated in int32), and the shuffles that
// those need.
#pragma once

#include "simd/arm_dotprod.h"

namespace tern::simd {
namespace {

struct ArmI8mm : ArmDotprod {
  // Interleave the int32 lanes of two vectors: of their low halves, of their high halves.
  static U zip_low(U a, U b) {
    return vreinterpretq_u8_u32(vzip1q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
  }
  static U zip_high(U a, U b) {
    return vreinterpretq_u8_u32(vzip2q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
  }
  static U two_of_8(const std::int8_t* a, const std::int8_t* b) {
    return vreinterpretq_u8_s8(vcombine_s8(vld1_s8(a), vld1_s8(b)));
  }
  // sums[i][j] += the dot product of a[i] and b[j]; each row of a and b is eight int8.
  static A dot_2x2(A sums, U a, U b) { return vmmlaq_s32(sums, vreinterpretq_s8_u8(a), vreinterpretq_s8_u8(b)); }
  // Row i of two results of dot_2x2(), side by side.
  template <int i>
  static I row(A first, A second) {
    const int64x2_t a = vreinterpretq_s64_s32(first), b = vreinterpretq_s64_s32(second);
    return vreinterpretq_s32_s64(i == 0 ? vzip1q_s64(a, b) : vzip2q_s64(a, b));
  }
};

}  // namespace
}  // namespace tern::simd
