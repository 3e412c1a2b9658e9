// The epilogue: turns the sums of some rows and tokens into results, once for all instruction sets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "ops/activation_quantize/generic.h"
#include "ops/dot/simd_table.h"

namespace tern::dot {
namespace {

template <class S>
struct Epilogue {
  using F = typename S::F;
  using I = typename S::I;
  using Quantize = activation_quantize::Loops<S>;

  template <int kOut>
  static F load_out(const void* p, std::size_t at) {
    if constexpr (kOut == kOutF16)
      return S::load_f16(static_cast<const std::uint16_t*>(p) + at);
    else if constexpr (kOut == kOutBf16)
      return S::load_bf16(static_cast<const std::uint16_t*>(p) + at);
    else
      return S::load(static_cast<const float*>(p) + at);
  }
  template <int kOut>
  static void store_out(void* p, std::size_t at, F v) {
    if constexpr (kOut == kOutF16)
      S::store_f16(static_cast<std::uint16_t*>(p) + at, v);
    else if constexpr (kOut == kOutBf16)
      S::store_bf16(static_cast<std::uint16_t*>(p) + at, v);
    else
      S::store(static_cast<float*>(p) + at, v);
  }
  template <int kOut>
  static void store_out1(void* p, std::size_t at, float v) {
    if constexpr (kOut == kOutF32) {
      __builtin_memcpy(static_cast<float*>(p) + at, &v, sizeof v);
    } else {
      const std::uint16_t half = kOut == kOutF16 ? half::to_f16(v) : half::to_bf16(v);
      __builtin_memcpy(static_cast<std::uint16_t*>(p) + at, &half, sizeof half);
    }
  }
  static F sum_floats(const std::int32_t* sums, I less) { return S::to_float(S::add(S::load_i32(sums), less)); }
  static F sum_floats(const float* sums, I) { return S::load(sums); }
  static float sum_float(std::int32_t sum, std::int32_t x_sum) { return static_cast<float>(take_off(sum, x_sum)); }
  static float sum_float(float sum, std::int32_t) { return sum; }

  static I minus(std::int32_t x_sum) {
    std::int32_t offsets[S::kF];
    for (std::int32_t& offset : offsets) offset = take_off(0, x_sum);
    return S::load_i32(offsets);
  }

  // Adds a group's sums, scaled, to the chains of a vector of rows.
  static F add_group(F chain, I sums, const float* scales) { return S::fma(S::to_float(sums), S::load(scales), chain); }
  static void add_group_to_tiles(const std::int32_t* sums, std::int32_t x_sum, const float* scales,
                                 std::int64_t scale_step, std::int64_t tiles, float* chain) {
    const I less = minus(x_sum);
    for (std::int64_t i = 0; i < tiles; ++i, scales += scale_step, sums += kTileRows, chain += kTileRows)
      for (std::size_t at = 0; at < static_cast<std::size_t>(kTileRows); at += S::kF)
        S::store(chain + at, add_group(S::load(chain + at), S::add(S::load_i32(sums + at), less), scales + at));
  }

  // Quotients of sums by a token's scale, correctly rounded without a division (Markstein): with the rounded
  // reciprocal, the first correction leaves an error below an ulp, and the second gives what a division gives. The size
  // of a sum is 0 or 1 to 2^31, so no step leaves the normal numbers while the scale is between 2^-60 and 2^60.
  struct Quotient {
    bool corrects;
    F s, minus, reciprocal;
    explicit Quotient(float scale)
        : corrects(S::kFused && scale >= 0x1p-60F && scale <= 0x1p60F),
          s(S::set1(scale)),
          minus(S::set1(-scale)),
          reciprocal(S::set1(corrects ? 1 / scale : 0)) {}
    [[nodiscard]] F of(F t, std::int32_t) const {
      if (!corrects) return S::div(t, s);
      F q = S::mul(t, reciprocal);
      q = S::mul_add(S::mul_add(q, minus, t), reciprocal, q);
      return S::mul_add(S::mul_add(q, minus, t), reciprocal, q);
    }
    [[nodiscard]] F of(F t, float) const { return S::div(t, s); }
  };

  template <int kOut, class Sum>
  static void run(const Sum* sums, const EpilogueBlock& given) {
    const EpilogueBlock block = given;  // a copy, which stores to y cannot change
    const F one_scale = S::set1(block.one_w_scale && block.w_scales != nullptr ? *block.w_scales : 1.0F);
    float s = block.s == nullptr ? 0 : *block.s;
    Quotient quotient(s);
    for (std::int64_t t = 0; t < block.tokens; ++t) {
      if (block.s != nullptr && block.s[t] != s) quotient = Quotient(s = block.s[t]);
      token_of<kOut>(sums + t * block.ld, block, one_scale, quotient,
                     {.s = s,
                      .x_sum = block.x_sums == nullptr ? 0 : block.x_sums[t * block.x_sums_stride],
                      .residual = block.residual == nullptr ? nullptr : block.residual + t * block.residual_stride,
                      .y = block.y + t * block.y_stride});
    }
  }

  struct Token {
    float s;
    std::int32_t x_sum;
    const std::byte* residual;
    std::byte* y;
  };
  template <int kOut, class Sum>
  static void token_of(const Sum* sums, const EpilogueBlock& block, F one_scale, const Quotient& quotient,
                       const Token& token) {
    const auto n = static_cast<std::size_t>(block.n);
    const I less = minus(token.x_sum);
    std::size_t at = 0;
    for (; at + S::kF <= n; at += S::kF) {
      F t = sum_floats(sums + at, less);
      if (token.s != 0) t = quotient.of(t, Sum{});
      if (block.w_scales != nullptr) t = S::mul(t, block.one_w_scale ? one_scale : S::load(block.w_scales + at));
      if (block.bias != nullptr) t = S::add(t, S::load(block.bias + at));
      if (block.relu) t = S::relu(t);
      if (block.squared_relu) {
        const F positive = S::relu(t);
        t = S::mul(positive, positive);
      }
      if (token.residual != nullptr) t = S::add(t, load_out<kOut>(token.residual, at));
      store_out<kOut>(token.y, at, t);
    }
    for (; at < n; ++at) {
      float t = sum_float(sums[at], token.x_sum);
      if (token.s != 0) t = t / token.s;
      if (block.w_scales != nullptr) t = t * block.w_scales[block.one_w_scale ? 0 : at];
      if (block.bias != nullptr) t = t + Quantize::template load1<0>(block.bias, at);
      if (block.relu) t = t < 0 ? 0.0F : t;
      if (block.squared_relu) {
        t = t < 0 ? 0.0F : t;
        t = t * t;
      }
      if (token.residual != nullptr) t = t + Quantize::template load1<kOut>(token.residual, at);
      store_out1<kOut>(token.y, at, t);
    }
  }
};

}  // namespace
}  // namespace tern::dot
