// The loops of affine_quantize, written once for all SIMD instruction sets.
//
//     t = x/s or x * (1/s);  v = rne(clamp(t, q_min - zp, q_max - zp));  code = v + zp
//
// Clamping before rounding gives the same result as clamping after it, because both bounds are integers. Codes of u8
// are computed 128 too small so that they survive S::narrow(), which saturates to signed bytes; store_u8() adds the
// 128.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "ops/affine/float_words.h"
#include "ops/affine/stream.h"
#include "ops/affine_quantize/simd_table.h"

namespace tern::affine_quantize {
namespace {

using affine::Element;
using affine::kBf16;
using affine::kF16;
using affine::kF32;

template <class S>
struct Loops {
  using F = typename S::F;
  using I = typename S::I;
  using Floats = affine::Floats<S>;

  static constexpr std::size_t kStep = 4 * S::kF;  // elements of one store
  static constexpr std::int32_t kInfinity = 0x7F80'0000;
  // Prefetch distances, as measured for ternary_quantize.
  static constexpr std::size_t kFarBytes = 16384;
  static constexpr std::size_t kNearBytes = 1024;

  template <int kStore>
  static constexpr std::size_t per_byte() {
    return kStore == kQuads ? 4 : kStore == kNibbles ? 2 : 1;
  }
  template <int kStore>
  static constexpr std::int32_t bias() {
    return kStore == kU8 ? 128 : 0;
  }
  template <int kStore>
  static void store(std::uint8_t* out, const I (&v)[4]) {
    const auto bytes = S::narrow(v[0], v[1], v[2], v[3]);
    if constexpr (kStore == kS8) S::store_i8(reinterpret_cast<std::int8_t*>(out), bytes);
    if constexpr (kStore == kU8) S::store_u8(out, bytes);
    if constexpr (kStore == kNibbles) S::store_nibbles(out, bytes);
    if constexpr (kStore == kQuads) S::store_s2(out, bytes);
  }

  // The constants that turn elements into codes. `scale` is s, or 1/s with kReciprocal.
  struct By {
    F scale, low, high;
    I zero;
  };
  template <bool kReciprocal>
  static I code(F x, const By& by) {
    F t;
    if constexpr (kReciprocal)
      t = S::mul(x, by.scale);
    else
      t = S::div(x, by.scale);
    return S::add(S::round(S::clamp(t, by.low, by.high)), by.zero);
  }
  static I whole(std::int32_t v) { return S::round(S::set1(static_cast<float>(v))); }

  template <bool kReciprocal, int kStore>
  static By by_one(float scale, std::int32_t zero, const Rule& rule) {
    return {S::set1(kReciprocal ? 1.0F / scale : scale), S::set1(static_cast<float>(rule.q_min - zero)),
            S::set1(static_cast<float>(rule.q_max - zero)), whole(zero - bias<kStore>())};
  }
  template <bool kReciprocal, int kStore>
  static By by_each(const float* scales, const std::int32_t* zeros, const Rule& rule) {
    By by{S::load(scales), S::set1(static_cast<float>(rule.q_min)), S::set1(static_cast<float>(rule.q_max)),
          whole(-bias<kStore>())};
    if (kReciprocal) by.scale = S::div(S::set1(1.0F), by.scale);
    if (zeros == nullptr) return by;
    const I zero = S::load_i32(zeros);
    const F minus = S::negate(S::to_float(zero));
    return {by.scale, S::add(by.low, minus), S::add(by.high, minus), S::add(zero, by.zero)};
  }

  template <int kSource, bool kReciprocal, int kStore>
  static void step(const Element<kSource>* x, const By& by, I& top, std::uint8_t* out) {
    I v[4];
    for (std::size_t i = 0; i < 4; ++i) {
      const F f = Floats::template load<kSource>(x + i * S::kF);
      top = S::max_bits(top, S::abs(f));
      v[i] = code<kReciprocal>(f, by);
    }
    store<kStore>(out, v);
  }

  // Stores the codes of the first n <= kStep elements: only the bytes that hold them, with unused bits cleared.
  template <int kStore>
  static void store_part(std::uint8_t* out, std::uint8_t (&bytes)[kStep], std::size_t n) {
    constexpr std::size_t kPer = per_byte<kStore>();
    const std::size_t used = (n + kPer - 1) / kPer;
    if (n % kPer != 0)
      bytes[used - 1] = static_cast<std::uint8_t>(bytes[used - 1] & ((1U << (8 / kPer * (n % kPer))) - 1U));
    __builtin_memcpy(out, bytes, used);
  }

  template <int kSource, bool kReciprocal, int kStore>
  static void range(const Element<kSource>* x, std::size_t n, const By& by, I& top, std::uint8_t* out) {
    std::size_t at = 0;
    for (; at + kStep <= n; at += kStep) {
      const auto here = reinterpret_cast<std::uintptr_t>(x + at);
      for (std::size_t line = 0; line < kStep * sizeof(*x); line += 64) {
        S::prefetch_l1(reinterpret_cast<const void*>(here + kNearBytes + line));
        S::prefetch_l2(reinterpret_cast<const void*>(here + kFarBytes + line));
      }
      step<kSource, kReciprocal, kStore>(x + at, by, top, out + at / per_byte<kStore>());
    }
    if (at == n) return;
    Element<kSource> rest[kStep] = {};
    std::uint8_t bytes[kStep];
    __builtin_memcpy(rest, x + at, (n - at) * sizeof(*x));
    step<kSource, kReciprocal, kStore>(rest, by, top, bytes);
    store_part<kStore>(out + at / per_byte<kStore>(), bytes, n - at);
  }

  template <int kSource, bool kReciprocal, int kStore>
  static bool ranges_by(const Element<kSource>* x, std::size_t count, std::size_t len, const float* scales,
                        const std::int32_t* zeros, const Rule& rule, std::uint8_t* out) {
    I top = S::zero_i();
    for (std::size_t i = 0; i < count; ++i, x += len, out += len / per_byte<kStore>()) {
      float scale = 0;
      std::int32_t zero = 0;
      __builtin_memcpy(&scale, scales + i, sizeof scale);  // may be unaligned
      if (zeros != nullptr) __builtin_memcpy(&zero, zeros + i, sizeof zero);
      range<kSource, kReciprocal, kStore>(x, len, by_one<kReciprocal, kStore>(scale, zero, rule), top, out);
    }
    return S::max_lane(top) < kInfinity;
  }
  template <int kSource, int kStore>
  static bool ranges(const void* x, std::int64_t count, std::int64_t len, const float* scales,
                     const std::int32_t* zeros, const Rule& rule, void* out) {
    const auto run = rule.reciprocal ? ranges_by<kSource, true, kStore> : ranges_by<kSource, false, kStore>;
    return run(static_cast<const Element<kSource>*>(x), static_cast<std::size_t>(count), static_cast<std::size_t>(len),
               scales, zeros, rule, static_cast<std::uint8_t*>(out));
  }

  // One step with a scale for each element. Scales are loaded one vector at a time.
  template <int kSource, bool kReciprocal, int kStore>
  static void each_step(const Element<kSource>* x, const float* scales, const std::int32_t* zeros, const Rule& rule,
                        I& top, std::uint8_t* out) {
    I v[4];
    for (std::size_t i = 0; i < 4; ++i) {
      const F f = Floats::template load<kSource>(x + i * S::kF);
      top = S::max_bits(top, S::abs(f));
      v[i] = code<kReciprocal>(
          f, by_each<kReciprocal, kStore>(scales + i * S::kF, zeros == nullptr ? nullptr : zeros + i * S::kF, rule));
    }
    store<kStore>(out, v);
  }
  template <int kSource, bool kReciprocal, int kStore>
  static bool each_by(const Element<kSource>* x, std::size_t n, const float* scales, const std::int32_t* zeros,
                      const Rule& rule, std::uint8_t* out) {
    I top = S::zero_i();
    std::size_t at = 0;
    for (; at + kStep <= n; at += kStep)
      each_step<kSource, kReciprocal, kStore>(x + at, scales + at, zeros == nullptr ? nullptr : zeros + at, rule, top,
                                              out + at);
    if (at < n) {
      Element<kSource> rest[kStep] = {};
      float scale[kStep];
      std::int32_t zero[kStep] = {};
      std::uint8_t bytes[kStep];
      for (float& s : scale) s = 1.0F;
      __builtin_memcpy(rest, x + at, (n - at) * sizeof(*x));
      __builtin_memcpy(scale, scales + at, (n - at) * sizeof(float));
      if (zeros != nullptr) __builtin_memcpy(zero, zeros + at, (n - at) * sizeof(std::int32_t));
      each_step<kSource, kReciprocal, kStore>(rest, scale, zeros == nullptr ? nullptr : zero, rule, top, bytes);
      __builtin_memcpy(out + at, bytes, n - at);
    }
    return S::max_lane(top) < kInfinity;
  }
  template <int kSource, int kStore>
  static bool each(const void* x, std::int64_t n, const float* scales, const std::int32_t* zeros, const Rule& rule,
                   void* out) {
    const auto run = rule.reciprocal ? each_by<kSource, true, kStore> : each_by<kSource, false, kStore>;
    return run(static_cast<const Element<kSource>*>(x), static_cast<std::size_t>(n), scales, zeros, rule,
               static_cast<std::uint8_t*>(out));
  }

  // Plain code that the compiler vectorizes with the instruction set's flags. Adding 1.5 * 2^52 rounds to an integer.
  static bool wide(const double* x, std::int64_t n, const double* scales, const std::int32_t* zeros, std::int64_t step,
                   const Rule& rule, void* out) {
    constexpr std::int64_t kWideInfinity = 0x7FF0'0000'0000'0000;
    auto* to = static_cast<std::uint8_t*>(out);
    std::int64_t top = 0;
    const bool one = step == 0;
    const double first = rule.reciprocal ? 1.0 / scales[0] : scales[0];
    for (std::int64_t i = 0; i < n; ++i) {
      const double v = x[i];
      const auto bits = __builtin_bit_cast(std::int64_t, __builtin_fabs(v));
      top = bits > top ? bits : top;
      const double scale = one ? first : rule.reciprocal ? 1.0 / scales[i] : scales[i];
      const std::int32_t zero = zeros == nullptr ? 0 : zeros[one ? 0 : i];
      const auto low = static_cast<double>(rule.q_min - zero), high = static_cast<double>(rule.q_max - zero);
      double t = rule.reciprocal ? v * scale : v / scale;
      t = t > low ? t : low;
      t = t < high ? t : high;
      to[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>((t + 0x1.8p52) - 0x1.8p52) + zero);
    }
    return top < kWideInfinity;
  }

  static constexpr SimdTable table() {
    SimdTable t{};
    add<kF32>(t);
    add<kF16>(t);
    add<kBf16>(t);
    t.wide = wide;
    t.stream = affine::Streaming<S>::copy;
    t.stream_fence = S::stream_fence;
    return t;
  }

 private:
  template <int kSource>
  static constexpr void add(SimdTable& t) {
    t.ranges[kSource][kS8] = ranges<kSource, kS8>;
    t.ranges[kSource][kU8] = ranges<kSource, kU8>;
    t.ranges[kSource][kNibbles] = ranges<kSource, kNibbles>;
    t.ranges[kSource][kQuads] = ranges<kSource, kQuads>;
    t.each[kSource][kS8] = each<kSource, kS8>;
    t.each[kSource][kU8] = each<kSource, kU8>;
  }
};

}  // namespace
}  // namespace tern::affine_quantize
