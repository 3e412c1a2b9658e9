// Computes scale and zero point from the extremes of a range, for the reference and the CPU driver. T is the type of
// the computation: double if x is f64, else float.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/elements.h"
#include "format/format.h"

namespace tern::choose_qparams {

struct Rule {
  CodeRange q = {};
  bool zero_points = false;
  DType scale_dtype = DType::f32;
  float eps = 0x1p-23F;
};

template <class T>
struct Chosen {
  T scale = 0;  // as stored; infinite if its type cannot hold it
  std::int32_t zero_point = 0;
  friend bool operator==(const Chosen&, const Chosen&) = default;
};

template <class T>
T as_stored(T scale, DType dtype) {
  switch (dtype) {
    case DType::f64: return scale;
    case DType::f16: return static_cast<T>(half::from_f16(half::to_f16(static_cast<float>(scale))));
    case DType::bf16: return static_cast<T>(half::from_bf16(half::to_bf16(static_cast<float>(scale))));
    default: return static_cast<T>(static_cast<float>(scale));
  }
}

// `up` is the largest x, `down` the largest -x, each at least 0.
template <class T>
Chosen<T> choose(const Rule& rule, T up, T down) {
  const T steps = static_cast<T>(rule.q.max - rule.q.min);
  T s = rule.zero_points ? (up + down) / steps : std::max(up, down) / (steps / 2);
  if (std::isinf(s)) s = up / steps + down / steps;  // max - min alone overflowed
  s = as_stored(std::max(s, static_cast<T>(rule.eps)), rule.scale_dtype);
  if (!rule.zero_points) return {s, 0};
  // down/s is hardly above `steps`, so adding 1.5 * 2^23 (f64: 2^52) rounds it to the nearest integer, ties to even.
  constexpr T kRound = std::is_same_v<T, float> ? T{0x1.8p23F} : static_cast<T>(0x1.8p52);
  const T rounded = (down / s + kRound) - kRound;
  const T below = rounded > 0 ? std::min(rounded, steps) : 0;  // also where a range is not finite and s is NaN
  return {s, rule.q.min + static_cast<std::int32_t>(below)};
}

// mse tries 80 ranges: the full range, 99 % of it, and so on down to 21 %.
constexpr int kShrinks = 80;
template <class T>
Chosen<T> shrunk(const Rule& rule, T up, T down, int i) {
  const T factor = static_cast<T>(100 - i) / T{100};
  return choose(rule, up * factor, down * factor);
}

// The nearest rank, from 1, of the p-th percentile of n values.
inline std::int64_t rank_of(double percentile, std::int64_t n) {
  const double rank = std::ceil(percentile * static_cast<double>(n) / 100.0);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(rank), 1, n);
}

}  // namespace tern::choose_qparams
