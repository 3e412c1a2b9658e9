// The rounding that fake_quantize and fake_quantize_backward share, written once for all SIMD instruction sets.
//
//     t = x/s or x * (1/s), clamped to one code beyond either end;  v = rne(t)
//
// v is in the range or one code outside it, so comparing v with the range gives the mask, and clamping v to the range
// gives q - zp. Wherever v is in the range, t is the unclamped x/s. v is converted from an integer, so it is never -0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "ops/affine/float_words.h"
#include "ops/fake_quantize/rule.h"

namespace tern::fake_quantize {
namespace {

template <class S>
struct Rounding {
  using F = typename S::F;
  using I = typename S::I;

  static constexpr std::size_t kStep = 4 * S::kF;  // elements per store of the mask
  static constexpr std::int32_t kInfinity = 0x7F80'0000;

  struct By {
    F scale, divisor;  // divisor is s, or 1/s with `reciprocal`
    F low, high;       // q_min - zp, q_max - zp
    F below, above;    // one code beyond low and high
    F first, last;     // the mask is 1 where first <= v <= last
  };
  static By by(F scale, F zero, const Rule& rule) {
    const F minus = S::negate(zero), one = S::set1(1.0F), none = S::set1(rule.strict ? 1.0F : 0.0F);
    By by;
    by.scale = scale;
    by.divisor = rule.reciprocal ? S::div(one, scale) : scale;
    by.low = S::add(S::set1(static_cast<float>(rule.q_min)), minus);
    by.high = S::add(S::set1(static_cast<float>(rule.q_max)), minus);
    by.below = S::add(by.low, S::negate(one));
    by.above = S::add(by.high, one);
    by.first = S::add(by.low, none);
    by.last = S::add(by.high, S::negate(none));
    return by;
  }
  static By by_one(float scale, std::int32_t zero, const Rule& rule) {
    return by(S::set1(scale), S::set1(static_cast<float>(zero)), rule);
  }
  static By by_each(const float* scales, const std::int32_t* zeros, const Rule& rule) {
    return by(S::load(scales), zeros == nullptr ? S::zero_f() : S::to_float(S::load_i32(zeros)), rule);
  }

  struct Rounded {
    F t, v;
    I inside;  // the mask: 1 or 0
    F q;       // v clamped to the range: q - zp
  };
  template <bool kReciprocal>
  static Rounded round(F x, const By& by) {
    F t;
    if constexpr (kReciprocal)
      t = S::mul(x, by.divisor);
    else
      t = S::div(x, by.divisor);
    t = S::clamp(t, by.below, by.above);
    const F v = S::to_float(S::round(t));
    return {t, v, S::within(v, by.first, by.last), S::clamp(v, by.low, by.high)};
  }

  // The same in f64, for plain code that the compiler vectorizes. Adding 1.5 * 2^52 rounds to an integer.
  struct Wide {
    double t, q;
    bool inside;
  };
  static Wide round_wide(double x, double divisor, std::int32_t zero, const Rule& rule) {
    const auto low = static_cast<double>(rule.q_min - zero), high = static_cast<double>(rule.q_max - zero);
    double t = rule.reciprocal ? x * divisor : x / divisor;
    t = t > low - 1 ? t : low - 1;
    t = t < high + 1 ? t : high + 1;
    const double v = ((t + 0x1.8p52) - 0x1.8p52) + 0.0;  // -0 becomes +0
    const double end = rule.strict ? 1 : 0;
    const double up = v > low ? v : low;
    return {t, up < high ? up : high, v >= low + end && v <= high - end};
  }
  static constexpr std::int64_t kWideInfinity = 0x7FF0'0000'0000'0000;
  static std::int64_t wide_bits(double x) { return __builtin_bit_cast(std::int64_t, __builtin_fabs(x)); }
};

}  // namespace
}  // namespace tern::fake_quantize
