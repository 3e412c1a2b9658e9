// From a statistic of a range to its scale: the few operations that loops and driver share.
#pragma once

#include <cstdint>

namespace tern::ternary_quantize {
namespace {

constexpr float kMinMean = 1e-5F;
constexpr float kMinMax = 1e-8F;
constexpr std::uint32_t kInfinityBits = 0x7F800000;
constexpr int kMaxMseRounds = 16;

inline float at_least(float v, float floor) { return v > floor ? v : floor; }

// One division, one rounding.
inline float mean_scale(double sum, std::int64_t count) {
  return at_least(static_cast<float>(sum / static_cast<double>(count)), kMinMean);
}

inline float max_scale(std::uint32_t max_bits) { return at_least(__builtin_bit_cast(float, max_bits), kMinMax); }

// `of` are the largest bit patterns of x and of -x, below 0 when no value was positive.
inline float int2_scale(const std::int32_t* of) {
  const float up = of[0] > 0 ? __builtin_bit_cast(float, of[0]) : 0.0F;
  const float down = of[1] > 0 ? __builtin_bit_cast(float, of[1]) / 2.0F : 0.0F;
  return at_least(at_least(up, down), kMinMax);
}

// 2*|w| > s and |w| > s/2 are the same: halving is exact down to the floors above, and a doubled overflow is above s.
inline float threshold(float scale) { return scale * 0.5F; }

}  // namespace
}  // namespace tern::ternary_quantize
