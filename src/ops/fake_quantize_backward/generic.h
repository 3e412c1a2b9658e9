// The loops of fake_quantize_backward, written once for all SIMD instruction sets.
#pragma once

#include "ops/affine/stream.h"
#include "ops/fake_quantize/rounding.h"
#include "ops/fake_quantize_backward/simd_table.h"

namespace tern::fake_quantize_backward {
namespace {

using affine::Element;
using affine::kBf16;
using affine::kF16;
using affine::kF32;

template <class S>
struct Loops {
  using R = fake_quantize::Rounding<S>;
  using F = typename S::F;
  using I = typename S::I;
  using By = typename R::By;
  using Floats = affine::Floats<S>;

  static constexpr std::size_t kStep = R::kStep;

  // by_of(i) returns the constants for vector i of the step. rne(t) - t is exact: the difference has no more bits than
  // t.
  template <int kType, bool kReciprocal, class ByOf>
  static void step(const Element<kType>* x, ByOf by_of, I& top, float* steps, std::uint8_t* mask) {
    I inside[4];
    for (std::size_t i = 0; i < 4; ++i) {
      const F f = Floats::template load<kType>(x + i * S::kF);
      top = S::max_bits(top, S::abs(f));
      const auto rounded = R::template round<kReciprocal>(f, by_of(i));
      const F taken = S::mul(rounded.t, S::to_float(rounded.inside));
      S::store(steps + i * S::kF, S::add(rounded.q, S::negate(taken)));
      inside[i] = rounded.inside;
    }
    S::store_i8(reinterpret_cast<std::int8_t*>(mask), S::narrow(inside[0], inside[1], inside[2], inside[3]));
  }
  // The tail: n < kStep elements.
  template <int kType, bool kReciprocal, class ByOf>
  static void rest(const Element<kType>* x, std::size_t n, ByOf by_of, I& top, float* steps, std::uint8_t* mask) {
    Element<kType> in[kStep] = {};
    float out[kStep];
    std::uint8_t bytes[kStep];
    __builtin_memcpy(in, x, n * sizeof(*x));
    step<kType, kReciprocal>(in, by_of, top, out, bytes);
    __builtin_memcpy(steps, out, n * sizeof(float));
    __builtin_memcpy(mask, bytes, n);
  }

  template <int kType, bool kReciprocal>
  static bool one_by(const Element<kType>* x, std::size_t n, const By& by, float* steps, std::uint8_t* mask) {
    I top = S::zero_i();
    const auto same = [&](std::size_t) -> const By& { return by; };
    std::size_t at = 0;
    for (; at + kStep <= n; at += kStep) step<kType, kReciprocal>(x + at, same, top, steps + at, mask + at);
    if (at < n) rest<kType, kReciprocal>(x + at, n - at, same, top, steps + at, mask + at);
    return S::max_lane(top) < R::kInfinity;
  }
  template <int kType>
  static bool one(const void* x, std::int64_t n, float scale, std::int32_t zero, const Rule& rule, float* steps,
                  std::uint8_t* mask) {
    const auto run = rule.reciprocal ? one_by<kType, true> : one_by<kType, false>;
    return run(static_cast<const Element<kType>*>(x), static_cast<std::size_t>(n), R::by_one(scale, zero, rule), steps,
               mask);
  }

  template <int kType, bool kReciprocal>
  static bool each_by(const Element<kType>* x, std::size_t n, const float* scales, const std::int32_t* zeros,
                      const Rule& rule, float* steps, std::uint8_t* mask) {
    I top = S::zero_i();
    const auto of = [&](const float* s, const std::int32_t* z) {
      return [&rule, s, z](std::size_t i) {
        return R::by_each(s + i * S::kF, z == nullptr ? nullptr : z + i * S::kF, rule);
      };
    };
    std::size_t at = 0;
    for (; at + kStep <= n; at += kStep)
      step<kType, kReciprocal>(x + at, of(scales + at, zeros == nullptr ? nullptr : zeros + at), top, steps + at,
                               mask + at);
    if (at < n) {
      float scale[kStep];
      std::int32_t zero[kStep] = {};
      for (float& s : scale) s = 1.0F;
      __builtin_memcpy(scale, scales + at, (n - at) * sizeof(float));
      if (zeros != nullptr) __builtin_memcpy(zero, zeros + at, (n - at) * sizeof(std::int32_t));
      rest<kType, kReciprocal>(x + at, n - at, of(scale, zero), top, steps + at, mask + at);
    }
    return S::max_lane(top) < R::kInfinity;
  }
  template <int kType>
  static bool each(const void* x, std::int64_t n, const float* scales, const std::int32_t* zeros, const Rule& rule,
                   float* steps, std::uint8_t* mask) {
    const auto run = rule.reciprocal ? each_by<kType, true> : each_by<kType, false>;
    return run(static_cast<const Element<kType>*>(x), static_cast<std::size_t>(n), scales, zeros, rule, steps, mask);
  }

  static bool wide(const double* x, std::int64_t n, const double* scales, const std::int32_t* zeros, std::int64_t step,
                   const Rule& rule, double* steps, std::uint8_t* mask) {
    std::int64_t top = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = step == 0 ? 0 : i;
      const std::int64_t bits = R::wide_bits(x[i]);
      top = bits > top ? bits : top;
      const auto r =
          R::round_wide(x[i], rule.reciprocal ? 1.0 / scales[at] : scales[at], zeros == nullptr ? 0 : zeros[at], rule);
      steps[i] = r.inside ? r.q - r.t : r.q;
      mask[i] = r.inside ? 1 : 0;
    }
    return top < R::kWideInfinity;
  }

  // Plain code that the compiler vectorizes with the instruction set's flags. Elements may be unaligned.
  template <class Bits>
  static void pass(const std::uint8_t* mask, const void* x, std::int64_t n, void* y) {
    constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    const auto* from = static_cast<const std::uint8_t*>(x);
    auto* to = static_cast<std::uint8_t*>(y);
    for (std::int64_t i = 0; i < n; ++i) {
      Bits v = 0;
      __builtin_memcpy(&v, from + i * static_cast<std::int64_t>(sizeof v), sizeof v);
      v = static_cast<Bits>(mask[i] != 0 ? v : v & kSign);
      __builtin_memcpy(to + i * static_cast<std::int64_t>(sizeof v), &v, sizeof v);
    }
  }

  static constexpr SimdTable table() {
    return {.one = {one<kF32>, one<kF16>, one<kBf16>},
            .each = {each<kF32>, each<kF16>, each<kBf16>},
            .wide = wide,
            .pass = {pass<std::uint16_t>, pass<std::uint32_t>, pass<std::uint64_t>},
            .stream = affine::Streaming<S>::copy,
            .stream_fence = S::stream_fence};
  }
};

}  // namespace
}  // namespace tern::fake_quantize_backward
