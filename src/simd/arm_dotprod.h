// Vector operations for NEON with dot products: each int32 lane accumulates four products of bytes.
#pragma once

#include "simd/arm_neon.h"

namespace tern::simd {
namespace {

struct ArmDotprod : ArmNeon {
  using A = int32x4_t;
  static constexpr std::size_t kFlushSteps = 1 << 20;  // a step adds up to 4 * 2 * 128 in magnitude; codes fit int8
  static constexpr int kTileSums = 20;                 // of 32 registers; four more hold codes, five activations
  static A zero_a() { return vdupq_n_s32(0); }
  static A dot(A sums, U codes, U x) { return vdotq_s32(sums, vreinterpretq_s8_u8(codes), vreinterpretq_s8_u8(x)); }
  template <int kFour>
  static A dot_lane(A sums, U codes, U x) {  // every lane takes the same four bytes of x
    return vdotq_laneq_s32(sums, vreinterpretq_s8_u8(codes), vreinterpretq_s8_u8(x), kFour);
  }
  static I dot_bytes(I sums, U codes, U x) { return vdotq_s32(sums, less_128(codes), vreinterpretq_s8_u8(x)); }
  template <int kShift>
  static I total(A sums) {
    return shifted<kShift>(sums);
  }
};

}  // namespace
}  // namespace tern::simd
