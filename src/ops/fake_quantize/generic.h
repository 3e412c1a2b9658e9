// The loops of fake_quantize, written once for all SIMD instruction sets: y = (q - zp) * s, and the mask.
#pragma once

#include "ops/affine/stream.h"
#include "ops/fake_quantize/rounding.h"
#include "ops/fake_quantize/simd_table.h"

namespace tern::fake_quantize {
namespace {

using affine::Element;
using affine::kBf16;
using affine::kF16;
using affine::kF32;

template <class S>
struct Loops {
  using R = Rounding<S>;
  using I = typename S::I;
  using By = typename R::By;
  using Floats = affine::Floats<S>;

  static constexpr std::size_t kStep = R::kStep;
  // Prefetch distances, as measured for ternary_quantize.
  static constexpr std::size_t kFarBytes = 16384;
  static constexpr std::size_t kNearBytes = 1024;

  // by_of(i) returns the constants for vector i of the step.
  template <int kType, bool kReciprocal, class ByOf>
  static void step(const Element<kType>* x, ByOf by_of, I& top, Element<kType>* y, std::uint8_t* mask) {
    I inside[4];
    for (std::size_t i = 0; i < 4; ++i) {
      const By& by = by_of(i);
      const auto f = Floats::template load<kType>(x + i * S::kF);
      top = S::max_bits(top, S::abs(f));
      const auto rounded = R::template round<kReciprocal>(f, by);
      Floats::template store<kType>(y + i * S::kF, S::mul(rounded.q, by.scale));
      inside[i] = rounded.inside;
    }
    if (mask != nullptr)
      S::store_i8(reinterpret_cast<std::int8_t*>(mask), S::narrow(inside[0], inside[1], inside[2], inside[3]));
  }
  // The tail: n < kStep elements.
  template <int kType, bool kReciprocal, class ByOf>
  static void rest(const Element<kType>* x, std::size_t n, ByOf by_of, I& top, Element<kType>* y, std::uint8_t* mask) {
    Element<kType> in[kStep] = {}, out[kStep];
    std::uint8_t bytes[kStep];
    __builtin_memcpy(in, x, n * sizeof(*x));
    step<kType, kReciprocal>(in, by_of, top, out, mask == nullptr ? nullptr : bytes);
    __builtin_memcpy(y, out, n * sizeof(*y));
    if (mask != nullptr) __builtin_memcpy(mask, bytes, n);
  }

  template <int kType, bool kReciprocal>
  static void range(const Element<kType>* x, std::size_t n, const By& by, I& top, Element<kType>* y,
                    std::uint8_t* mask) {
    const auto same = [&](std::size_t) -> const By& { return by; };
    std::size_t at = 0;
    for (; at + kStep <= n; at += kStep) {
      const auto here = reinterpret_cast<std::uintptr_t>(x + at);
      for (std::size_t line = 0; line < kStep * sizeof(*x); line += 64) {
        S::prefetch_l1(reinterpret_cast<const void*>(here + kNearBytes + line));
        S::prefetch_l2(reinterpret_cast<const void*>(here + kFarBytes + line));
      }
      step<kType, kReciprocal>(x + at, same, top, y + at, mask == nullptr ? nullptr : mask + at);
    }
    if (at < n) rest<kType, kReciprocal>(x + at, n - at, same, top, y + at, mask == nullptr ? nullptr : mask + at);
  }

  template <int kType, bool kReciprocal>
  static bool ranges_by(const Element<kType>* x, std::size_t count, std::size_t len, const float* scales,
                        const std::int32_t* zeros, const Rule& rule, Element<kType>* y, std::uint8_t* mask) {
    I top = S::zero_i();
    for (std::size_t i = 0; i < count; ++i) {
      float scale = 0;
      std::int32_t zero = 0;
      __builtin_memcpy(&scale, scales + i, sizeof scale);  // may be unaligned
      if (zeros != nullptr) __builtin_memcpy(&zero, zeros + i, sizeof zero);
      range<kType, kReciprocal>(x + i * len, len, R::by_one(scale, zero, rule), top, y + i * len,
                                mask == nullptr ? nullptr : mask + i * len);
    }
    return S::max_lane(top) < R::kInfinity;
  }
  template <int kType>
  static bool ranges(const void* x, std::int64_t count, std::int64_t len, const float* scales,
                     const std::int32_t* zeros, const Rule& rule, void* y, std::uint8_t* mask) {
    const auto run = rule.reciprocal ? ranges_by<kType, true> : ranges_by<kType, false>;
    return run(static_cast<const Element<kType>*>(x), static_cast<std::size_t>(count), static_cast<std::size_t>(len),
               scales, zeros, rule, static_cast<Element<kType>*>(y), mask);
  }

  template <int kType, bool kReciprocal>
  static bool each_by(const Element<kType>* x, std::size_t n, const float* scales, const std::int32_t* zeros,
                      const Rule& rule, Element<kType>* y, std::uint8_t* mask) {
    I top = S::zero_i();
    By by;
    const auto of = [&](const float* s, const std::int32_t* z) {
      return [&by, &rule, s, z](std::size_t i) -> const By& {
        by = R::by_each(s + i * S::kF, z == nullptr ? nullptr : z + i * S::kF, rule);
        return by;
      };
    };
    std::size_t at = 0;
    for (; at + kStep <= n; at += kStep)
      step<kType, kReciprocal>(x + at, of(scales + at, zeros == nullptr ? nullptr : zeros + at), top, y + at,
                               mask == nullptr ? nullptr : mask + at);
    if (at < n) {
      float scale[kStep];
      std::int32_t zero[kStep] = {};
      for (float& s : scale) s = 1.0F;
      __builtin_memcpy(scale, scales + at, (n - at) * sizeof(float));
      if (zeros != nullptr) __builtin_memcpy(zero, zeros + at, (n - at) * sizeof(std::int32_t));
      rest<kType, kReciprocal>(x + at, n - at, of(scale, zero), top, y + at, mask == nullptr ? nullptr : mask + at);
    }
    return S::max_lane(top) < R::kInfinity;
  }
  template <int kType>
  static bool each(const void* x, std::int64_t n, const float* scales, const std::int32_t* zeros, const Rule& rule,
                   void* y, std::uint8_t* mask) {
    const auto run = rule.reciprocal ? each_by<kType, true> : each_by<kType, false>;
    return run(static_cast<const Element<kType>*>(x), static_cast<std::size_t>(n), scales, zeros, rule,
               static_cast<Element<kType>*>(y), mask);
  }

  static bool wide(const double* x, std::int64_t n, const double* scales, const std::int32_t* zeros, std::int64_t step,
                   const Rule& rule, double* y, std::uint8_t* mask) {
    std::int64_t top = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = step == 0 ? 0 : i;
      const std::int64_t bits = R::wide_bits(x[i]);
      top = bits > top ? bits : top;
      const auto r =
          R::round_wide(x[i], rule.reciprocal ? 1.0 / scales[at] : scales[at], zeros == nullptr ? 0 : zeros[at], rule);
      y[i] = rule.narrow_product ? static_cast<double>(static_cast<float>(r.q) * static_cast<float>(scales[at]))
                                 : r.q * scales[at];
      if (mask != nullptr) mask[i] = r.inside ? 1 : 0;
    }
    return top < R::kWideInfinity;
  }

  static constexpr SimdTable table() {
    return {.ranges = {ranges<kF32>, ranges<kF16>, ranges<kBf16>},
            .each = {each<kF32>, each<kF16>, each<kBf16>},
            .wide = wide,
            .stream = affine::Streaming<S>::copy,
            .stream_fence = S::stream_fence};
  }
};

}  // namespace
}  // namespace tern::fake_quantize
