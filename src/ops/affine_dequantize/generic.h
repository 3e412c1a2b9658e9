// The loops of affine_dequantize, written once for all SIMD instruction sets: y = float(code - zp) * s, then rounded to
// y's type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "ops/affine/float_words.h"
#include "ops/affine/stream.h"
#include "ops/affine_dequantize/simd_table.h"

namespace tern::affine_dequantize {
namespace {

using affine::Element;
using affine::kBf16;
using affine::kF16;
using affine::kF32;

template <int kLoad>
struct ByteOf {
  using Type = std::int8_t;
};
template <>
struct ByteOf<kU8> {
  using Type = std::uint8_t;
};

template <class S>
struct Loops {
  using F = typename S::F;
  using I = typename S::I;
  using Floats = affine::Floats<S>;
  template <int kLoad>
  using Byte = typename ByteOf<kLoad>::Type;

  template <int kLoad>
  static I load(const Byte<kLoad>* codes) {
    if constexpr (kLoad == kU8)
      return S::widen_u8(codes);
    else
      return S::widen(codes);
  }

  template <int kTarget, int kLoad>
  static void range(const Byte<kLoad>* codes, std::size_t n, float scale, std::int32_t zero, Element<kTarget>* y) {
    const F by = S::set1(scale);
    const I minus = S::round(S::set1(static_cast<float>(-zero)));
    const auto value = [&](const Byte<kLoad>* from) {
      return S::mul(S::to_float(S::add(load<kLoad>(from), minus)), by);
    };
    std::size_t at = 0;
    for (; at + 4 * S::kF <= n; at += 4 * S::kF)
      for (std::size_t i = at; i < at + 4 * S::kF; i += S::kF) Floats::template store<kTarget>(y + i, value(codes + i));
    for (; at + S::kF <= n; at += S::kF) Floats::template store<kTarget>(y + at, value(codes + at));
    if (at == n) return;
    Byte<kLoad> rest[S::kF] = {};
    Element<kTarget> values[S::kF];
    __builtin_memcpy(rest, codes + at, n - at);
    Floats::template store<kTarget>(values, value(rest));
    __builtin_memcpy(y + at, values, (n - at) * sizeof(*y));
  }

  template <int kTarget, int kLoad>
  static void ranges(const void* codes, std::int64_t count, std::int64_t len, const float* scales,
                     const std::int32_t* zeros, void* y) {
    const auto* from = static_cast<const Byte<kLoad>*>(codes);
    auto* to = static_cast<Element<kTarget>*>(y);
    for (std::int64_t i = 0; i < count; ++i, from += len, to += len) {
      float scale = 0;
      std::int32_t zero = 0;
      __builtin_memcpy(&scale, scales + i, sizeof scale);  // may be unaligned
      if (zeros != nullptr) __builtin_memcpy(&zero, zeros + i, sizeof zero);
      range<kTarget, kLoad>(from, static_cast<std::size_t>(len), scale, zero, to);
    }
  }

  template <int kTarget, int kLoad>
  static void each(const void* codes, std::int64_t elems, const float* scales, const std::int32_t* zeros, void* y) {
    const auto* from = static_cast<const Byte<kLoad>*>(codes);
    auto* to = static_cast<Element<kTarget>*>(y);
    const auto n = static_cast<std::size_t>(elems);
    const I one = S::round(S::set1(1.0F));
    const auto value = [&](const Byte<kLoad>* code, const float* scale, const std::int32_t* zero) {
      I q = load<kLoad>(code);
      if (zeros != nullptr) q = S::add(S::add(q, S::invert(S::load_i32(zero))), one);  // -zp is ~zp + 1
      return S::mul(S::to_float(q), S::load(scale));
    };
    std::size_t at = 0;
    for (; at + S::kF <= n; at += S::kF)
      Floats::template store<kTarget>(to + at, value(from + at, scales + at, zeros == nullptr ? nullptr : zeros + at));
    if (at == n) return;
    Byte<kLoad> rest[S::kF] = {};
    float scale[S::kF] = {};
    std::int32_t zero[S::kF] = {};
    Element<kTarget> values[S::kF];
    __builtin_memcpy(rest, from + at, n - at);
    __builtin_memcpy(scale, scales + at, (n - at) * sizeof(float));
    if (zeros != nullptr) __builtin_memcpy(zero, zeros + at, (n - at) * sizeof(std::int32_t));
    Floats::template store<kTarget>(values, value(rest, scale, zero));
    __builtin_memcpy(to + at, values, (n - at) * sizeof(*to));
  }

  // Plain code that the compiler vectorizes with the instruction set's flags.
  template <int kLoad>
  static void wide(const void* codes, std::int64_t n, const double* scales, const std::int32_t* zeros,
                   std::int64_t step, double* y) {
    const auto* from = static_cast<const Byte<kLoad>*>(codes);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = step == 0 ? 0 : i;
      y[i] = static_cast<double>(from[i] - (zeros == nullptr ? 0 : zeros[at])) * scales[at];
    }
  }
  template <int kBits>
  static void unpack_bits(const std::uint8_t* codes, std::int64_t n, unsigned sign, std::uint8_t* bytes) {
    constexpr int kPer = 8 / kBits;
    constexpr unsigned kMask = (1U << kBits) - 1U;
    for (std::int64_t i = 0; i < n / kPer; ++i)
      for (int j = 0; j < kPer; ++j)
        bytes[kPer * i + j] = static_cast<std::uint8_t>((((codes[i] >> (kBits * j)) & kMask) ^ sign) - sign);
  }
  static void unpack(const std::uint8_t* codes, std::int64_t n, int bits, bool is_signed, std::uint8_t* bytes) {
    const unsigned sign = is_signed ? 1U << (bits - 1) : 0U;  // (v ^ sign) - sign extends the sign
    return bits == 4 ? unpack_bits<4>(codes, n, sign, bytes) : unpack_bits<2>(codes, n, sign, bytes);
  }

  static constexpr SimdTable table() {
    SimdTable t{};
    t.unpack = unpack;
    t.stream = affine::Streaming<S>::copy;
    t.stream_fence = S::stream_fence;
    add<kF32>(t);
    add<kF16>(t);
    add<kBf16>(t);
    t.wide[kS8] = wide<kS8>;
    t.wide[kU8] = wide<kU8>;
    return t;
  }

 private:
  template <int kTarget>
  static constexpr void add(SimdTable& t) {
    t.ranges[kTarget][kS8] = ranges<kTarget, kS8>;
    t.ranges[kTarget][kU8] = ranges<kTarget, kU8>;
    t.each[kTarget][kS8] = each<kTarget, kS8>;
    t.each[kTarget][kU8] = each<kTarget, kU8>;
  }
};

}  // namespace
}  // namespace tern::affine_dequantize
