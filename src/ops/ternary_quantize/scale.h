// Computes the scale of a range from its statistics: the few operations that loops and driver share. T is the type that
// the scheme computes in: double for f64 input, else float.
#pragma once

#include <cstdint>

namespace tern::ternary_quantize {
namespace {

constexpr float kMinMean = 1e-5F;
constexpr float kMinMax = 1e-8F;
constexpr std::uint32_t kInfinityBits = 0x7F800000;
constexpr int kMaxMseRounds = 16;

template <class T>
T at_least(T v, float floor) {
  return v > static_cast<T>(floor) ? v : static_cast<T>(floor);
}

// One division, one rounding.
template <class T>
T mean_scale(double sum, std::int64_t count) {
  return at_least(static_cast<T>(sum / static_cast<double>(count)), kMinMean);
}

template <class T>
T max_scale(T max_abs) {
  return at_least(max_abs, kMinMax);
}

// `up` and `down` are the largest of x and of -x, or 0 when none was positive.
template <class T>
T int2_scale(T up, T down) {
  const T half = down / 2;
  return at_least(up > half ? up : half, kMinMax);
}

// 2*|w| > s and |w| > s/2 are the same: halving s is exact down to the floors above, and where 2*|w| overflows both
// hold.
template <class T>
T threshold(T scale) {
  return scale * T{0.5F};
}

}  // namespace
}  // namespace tern::ternary_quantize
