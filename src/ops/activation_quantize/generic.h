// The loops of activation_quantize, written once for any set of vector operations. linear uses them too, for
// activations that it quantizes itself.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "ops/activation_quantize/simd_table.h"

namespace tern::activation_quantize {
namespace {

template <class S>
struct Loops {
  using F = typename S::F;
  using I = typename S::I;

  template <int kSource>
  static F load(const void* x, std::size_t at) {
    if constexpr (kSource == kF16)
      return S::load_f16(static_cast<const std::uint16_t*>(x) + at);
    else if constexpr (kSource == kBf16)
      return S::load_bf16(static_cast<const std::uint16_t*>(x) + at);
    else
      return S::load(static_cast<const float*>(x) + at);
  }
  template <int kSource>
  static float load1(const void* x, std::size_t at) {
    float v = 0;
    std::uint16_t half = 0;
    if constexpr (kSource == kF32)
      __builtin_memcpy(&v, static_cast<const float*>(x) + at, sizeof v);
    else
      __builtin_memcpy(&half, static_cast<const std::uint16_t*>(x) + at, sizeof half);
    if constexpr (kSource == kF16) v = half::from_f16(half);
    if constexpr (kSource == kBf16) v = half::from_bf16(half);
    return v;
  }

  template <int kSource>
  static std::uint32_t max_abs_bits(const void* x, std::int64_t elems) {
    const auto n = static_cast<std::size_t>(elems);
    I top[4] = {S::zero_i(), S::zero_i(), S::zero_i(), S::zero_i()};
    std::size_t at = 0;
    for (; at + 4 * S::kF <= n; at += 4 * S::kF)
      for (std::size_t i = 0; i < 4; ++i) top[i] = S::max_bits(top[i], S::abs(load<kSource>(x, at + i * S::kF)));
    std::int32_t most = S::max_lane(S::max(S::max(top[0], top[1]), S::max(top[2], top[3])));
    for (; at < n; ++at) {
      const auto bits = __builtin_bit_cast(std::int32_t, __builtin_fabsf(load1<kSource>(x, at)));
      most = bits > most ? bits : most;
    }
    return static_cast<std::uint32_t>(most);
  }

  template <int kSource>
  static std::int32_t quantize(const void* x, std::int64_t elems, float s, std::int8_t* q) {
    constexpr std::size_t kStep = 4 * S::kF;  // codes in a vector of bytes
    const auto n = static_cast<std::size_t>(elems);
    const F by = S::set1(s);
    I sums[4] = {S::zero_i(), S::zero_i(), S::zero_i(), S::zero_i()};
    std::size_t at = 0;
    for (; at + kStep <= n; at += kStep) {
      I v[4];
      for (std::size_t i = 0; i < 4; ++i) {
        v[i] = S::round(S::mul(load<kSource>(x, at + i * S::kF), by));  // within [-127, 127], so nothing to clamp
        sums[i] = S::add(sums[i], v[i]);
      }
      S::store_i8(q + at, S::narrow(v[0], v[1], v[2], v[3]));
    }
    std::int32_t sum = S::sum_lanes(S::add(S::add(sums[0], sums[1]), S::add(sums[2], sums[3])));
    for (; at < n; ++at) {
      const auto v = static_cast<std::int32_t>((load1<kSource>(x, at) * s + 12582912.0F) - 12582912.0F);
      q[at] = static_cast<std::int8_t>(v);
      sum += v;
    }
    return sum;
  }

  static constexpr SimdTable table() {
    return {{max_abs_bits<kF32>, max_abs_bits<kF16>, max_abs_bits<kBf16>},
            {quantize<kF32>, quantize<kF16>, quantize<kBf16>}};
  }
};

}  // namespace
}  // namespace tern::activation_quantize
