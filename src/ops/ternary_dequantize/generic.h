// The loops of ternary_dequantize, written once for any set of vector operations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "ops/ternary_dequantize/simd_table.h"

namespace tern::ternary_dequantize {
namespace {

// One value for each target type. code * scale is exact in f32 unless it overflows, so it is rounded only once.
template <int kTarget>
struct Value;
template <>
struct Value<kF32> {
  using T = float;
  static T of(int code, float scale) { return static_cast<float>(code) * scale; }
};
template <>
struct Value<kF64> {
  using T = double;
  static T of(int code, float scale) { return static_cast<double>(code) * static_cast<double>(scale); }
};
template <>
struct Value<kF16> {
  using T = std::uint16_t;
  static T of(int code, float scale) { return half::to_f16(static_cast<float>(code) * scale); }
  static float wide(T value) { return half::from_f16(value); }
};
template <>
struct Value<kBf16> {
  using T = std::uint16_t;
  static T of(int code, float scale) { return half::to_bf16(static_cast<float>(code) * scale); }
  static float wide(T value) { return half::from_bf16(value); }
};

template <class S, int kTarget>
struct TargetLoops {
  using F = typename S::F;
  using I = typename S::I;
  using T = typename Value<kTarget>::T;

  static constexpr std::size_t kStep = 4 * S::kF;  // elements of one step of the inner loop
  // The codes that bits 00, 01, 10 and 11 stand for, by Load: i2 (11 is invalid), s2.
  static constexpr int kCodes[2][4] = {{-1, 0, 1, 0}, {0, 1, -2, -1}};

  template <bool kStream>
  static void put(T* y, F v) {
    if constexpr (kTarget == kF16)
      S::store_f16(y, v);
    else if constexpr (kTarget == kBf16)
      S::store_bf16(y, v);
    else if constexpr (kStream)
      S::stream(y, v);
    else
      S::store(y, v);
  }

  static float scale_at(const float* scales, std::int64_t i) {
    float s = 0;
    __builtin_memcpy(&s, scales + i, sizeof s);
    return s;
  }

  // Not 0 if some i2 code in kBytes bytes is 11, which is invalid.
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

  // Dequantizes kStep elements. For halves the table holds their exact values as floats, which narrow without rounding.
  template <bool kStream>
  static void packed_step(const std::uint8_t* codes, const T* values, F table, T* y) {
    if constexpr (kTarget == kF64) {
      T out[kStep];
      for (std::size_t i = 0; i < kStep; ++i) out[i] = values[(codes[i / 4] >> (2 * (i % 4))) & 3];
      __builtin_memcpy(y, out, sizeof out);
    } else {
      F v[4];
      S::decode4(codes, table, v);
      for (std::size_t i = 0; i < 4; ++i) put<kStream>(y + i * S::kF, v[i]);
    }
  }

  // Returns whether every code was valid.
  template <int kLoad, bool kStream>
  static bool packed_range(const std::uint8_t* p, std::size_t n, float scale, T* y) {
    T values[4];
    float floats[4] = {};
    for (int i = 0; i < 4; ++i) {
      values[i] = Value<kTarget>::of(kCodes[kLoad][i], scale);
      if constexpr (kTarget == kF32) floats[i] = values[i];
      if constexpr (kTarget == kF16 || kTarget == kBf16) floats[i] = Value<kTarget>::wide(values[i]);
    }
    const F table = S::table4(floats);
    std::uint64_t bad = 0;
    std::size_t at = 0;
    const std::uint8_t* codes = p;
    for (; at + kStep <= n; at += kStep, codes += S::kF) {
      if (kLoad == kI2) bad |= code3<S::kF>(codes);
      packed_step<kStream>(codes, values, table, y + at);
    }
    for (; at < n; ++at) {
      const int code = (p[at / 4] >> (2 * (at % 4))) & 3;
      if (kLoad == kI2 && code == 3) bad = 1;
      __builtin_memcpy(y + at, values + code, sizeof(T));
    }
    return bad == 0;
  }

  template <int kLoad, bool kStream>
  static bool packed_ranges(const std::uint8_t* p, std::int64_t count, std::int64_t len, const float* scales, T* y) {
    const auto n = static_cast<std::size_t>(len), bytes = (n + 3) / 4;
    bool valid = true;
    for (std::int64_t i = 0; i < count; ++i, p += bytes, y += n)
      valid = packed_range<kLoad, kStream>(p, n, scale_at(scales, i), y) && valid;
    return valid;
  }

  template <bool kStream>
  static bool byte_ranges(const std::int8_t* p, std::int64_t count, std::int64_t len, const float* scales, int min_code,
                          T* y) {
    const auto n = static_cast<std::size_t>(len);
    I high = S::zero_i(), low = S::zero_i();  // the largest code, and the largest ~code (the smallest code)
    int high1 = 0, low1 = 0;
    for (std::int64_t i = 0; i < count; ++i, p += n, y += n) {
      const float scale = scale_at(scales, i);
      const F by = S::set1(scale);
      std::size_t at = 0;
      if constexpr (kTarget != kF64)
        for (; at + S::kF <= n; at += S::kF) {
          const I c = S::widen(p + at);
          high = S::max(high, c);
          low = S::max(low, S::invert(c));
          put<kStream>(y + at, S::mul(S::to_float(c), by));
        }
      for (; at < n; ++at) {
        high1 = p[at] > high1 ? p[at] : high1;
        low1 = ~p[at] > low1 ? ~p[at] : low1;
        const T v = Value<kTarget>::of(p[at], scale);
        __builtin_memcpy(y + at, &v, sizeof v);
      }
    }
    return high1 <= 1 && low1 <= ~min_code && S::max_lane(high) <= 1 && S::max_lane(low) <= ~min_code;
  }

  template <int kLoad, bool kStream>
  static bool some_ranges(const void* codes, std::int64_t count, std::int64_t len, const float* scales, int min_code,
                          T* y) {
    if constexpr (kLoad == kI8)
      return byte_ranges<kStream>(static_cast<const std::int8_t*>(codes), count, len, scales, min_code, y);
    else
      return packed_ranges<kLoad, kStream>(static_cast<const std::uint8_t*>(codes), count, len, scales, y);
  }

  // Only floats have a streaming store. Other types are computed into a block in L1, which is then streamed as floats.
  template <int kLoad>
  static bool stream_ranges(const std::uint8_t* codes, std::int64_t count, std::int64_t len, const float* scales,
                            int min_code, T* y) {
    constexpr std::int64_t kBlock = 1024;
    constexpr std::size_t kPerVector = S::kF * sizeof(float) / sizeof(T);
    alignas(64) T block[kBlock];
    const std::int64_t bytes = kLoad == kI8 ? len : (len + 3) / 4;
    bool valid = true;
    for (std::int64_t i = 0; i < count; ++i, codes += bytes)
      for (std::int64_t at = 0; at < len; at += kBlock) {
        const std::int64_t part = len - at < kBlock ? len - at : kBlock;
        valid = some_ranges<kLoad, false>(codes + (kLoad == kI8 ? at : at / 4), 1, part, scales + i, min_code, block) &&
                valid;
        const auto n = static_cast<std::size_t>(part);
        std::size_t done = 0;
        for (; done + kPerVector <= n; done += kPerVector)
          S::stream(reinterpret_cast<float*>(y + done), S::load(reinterpret_cast<const float*>(block + done)));
        __builtin_memcpy(y + done, block + done, (n - done) * sizeof(T));
        y += n;
      }
    return valid;
  }

  template <int kLoad>
  static bool ranges(const void* codes, std::int64_t count, std::int64_t len, const float* scales, int min_code,
                     bool stream, void* y) {
    auto* to = static_cast<T*>(y);
    if (!stream) return some_ranges<kLoad, false>(codes, count, len, scales, min_code, to);
    bool valid = false;
    if constexpr (kTarget == kF32)
      valid = some_ranges<kLoad, true>(codes, count, len, scales, min_code, to);
    else
      valid = stream_ranges<kLoad>(static_cast<const std::uint8_t*>(codes), count, len, scales, min_code, to);
    S::stream_fence();
    return valid;
  }
};

template <class S>
struct Loops {
  static constexpr SimdTable table() {
    SimdTable t{};
    add<kF32>(t);
    add<kF64>(t);
    add<kF16>(t);
    add<kBf16>(t);
    return t;
  }

 private:
  template <int kTarget>
  static constexpr void add(SimdTable& t) {
    using L = TargetLoops<S, kTarget>;
    t.ranges[kTarget][kI2] = L::template ranges<kI2>;
    t.ranges[kTarget][kS2] = L::template ranges<kS2>;
    t.ranges[kTarget][kI8] = L::template ranges<kI8>;
  }
};

}  // namespace
}  // namespace tern::ternary_dequantize
