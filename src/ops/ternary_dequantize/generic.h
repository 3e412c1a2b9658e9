// The loops of ternary_dequantize, once, over any set of vector words.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/ternary_dequantize/simd_table.h"

namespace tern::ternary_dequantize {
namespace {

template <class S>
struct Loops {
  using F = typename S::F;
  using I = typename S::I;

  static constexpr std::size_t kStep = 4 * S::kF;  // elements of an inner step
  // Of which code each place of the table of four is: bits 00 01 10 11.
  static constexpr float kCodes[2][4] = {{-1.0F, 0.0F, 1.0F, 0.0F}, {0.0F, 1.0F, -2.0F, -1.0F}};

  template <bool kStream>
  static void put(float* y, F v) {
    if constexpr (kStream)
      S::stream(y, v);
    else
      S::store(y, v);
  }

  static float scale_at(const float* scales, std::int64_t i) {
    float s = 0;
    __builtin_memcpy(&s, scales + i, sizeof s);
    return s;
  }

  // Bits 01 of every i2 pair that is 11, in the first n codes of some bytes.
  template <std::size_t kBytes>
  static std::uint64_t code3(const std::uint8_t* p) {
    std::uint64_t found = 0;
    for (std::size_t at = 0; at < kBytes; at += 4) {
      std::uint32_t word = 0;
      __builtin_memcpy(&word, p + at, sizeof word);
      found |= word & (word >> 1);
    }
    return found & 0x5555'5555U;
  }

  // Returns whether every code was valid.
  template <int kLoad, bool kStream>
  static bool packed_range(const std::uint8_t* p, std::size_t n, float scale, float* y) {
    float values[4];
    for (int i = 0; i < 4; ++i) values[i] = kCodes[kLoad][i] * scale;
    const F table = S::table4(values);
    std::uint64_t bad = 0;
    std::size_t at = 0;
    const std::uint8_t* codes = p;
    for (; at + kStep <= n; at += kStep, codes += S::kF) {
      if (kLoad == kI2) bad |= code3<S::kF>(codes);
      F v[4];
      S::decode4(codes, table, v);
      for (std::size_t i = 0; i < 4; ++i) put<kStream>(y + at + i * S::kF, v[i]);
    }
    for (; at < n; ++at) {
      const int code = (p[at / 4] >> (2 * (at % 4))) & 3;
      if (kLoad == kI2 && code == 3) bad = 1;
      __builtin_memcpy(y + at, values + code, sizeof(float));
    }
    return bad == 0;
  }

  template <int kLoad, bool kStream>
  static bool packed_ranges(const std::uint8_t* p, std::int64_t count, std::int64_t len, const float* scales,
                            float* y) {
    const auto n = static_cast<std::size_t>(len), bytes = (n + 3) / 4;
    bool valid = true;
    for (std::int64_t i = 0; i < count; ++i, p += bytes, y += n)
      valid = packed_range<kLoad, kStream>(p, n, scale_at(scales, i), y) && valid;
    return valid;
  }

  template <bool kStream>
  static bool byte_ranges(const std::int8_t* p, std::int64_t count, std::int64_t len, const float* scales, int min_code,
                          float* y) {
    const auto n = static_cast<std::size_t>(len);
    I high = S::zero_i(), low = S::zero_i();  // the largest code, and the largest -1 - code
    int high1 = 0, low1 = 0;
    for (std::int64_t i = 0; i < count; ++i, p += n, y += n) {
      const float scale = scale_at(scales, i);
      const F by = S::set1(scale);
      std::size_t at = 0;
      for (; at + S::kF <= n; at += S::kF) {
        const I c = S::widen(p + at);
        high = S::max(high, c);
        low = S::max(low, S::invert(c));
        put<kStream>(y + at, S::mul(S::to_float(c), by));
      }
      for (; at < n; ++at) {
        high1 = p[at] > high1 ? p[at] : high1;
        low1 = ~p[at] > low1 ? ~p[at] : low1;
        const float v = static_cast<float>(p[at]) * scale;
        __builtin_memcpy(y + at, &v, sizeof v);
      }
    }
    return high1 <= 1 && low1 <= ~min_code && S::max_lane(high) <= 1 && S::max_lane(low) <= ~min_code;
  }

  template <int kLoad>
  static bool ranges(const void* codes, std::int64_t count, std::int64_t len, const float* scales, int min_code,
                     bool stream, float* y) {
    bool valid = false;
    if constexpr (kLoad == kI8) {
      const auto* p = static_cast<const std::int8_t*>(codes);
      valid = stream ? byte_ranges<true>(p, count, len, scales, min_code, y)
                     : byte_ranges<false>(p, count, len, scales, min_code, y);
    } else {
      const auto* p = static_cast<const std::uint8_t*>(codes);
      valid = stream ? packed_ranges<kLoad, true>(p, count, len, scales, y)
                     : packed_ranges<kLoad, false>(p, count, len, scales, y);
    }
    if (stream) S::stream_fence();
    return valid;
  }

  static constexpr SimdTable table() { return {{ranges<kI2>, ranges<kS2>, ranges<kI8>}}; }
};

}  // namespace
}  // namespace tern::ternary_dequantize
