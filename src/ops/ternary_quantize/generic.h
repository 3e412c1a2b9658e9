// The loops of ternary_quantize, once, over any set of vector words. An ISA file instantiates them and exports a table.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/ternary_quantize/scale.h"
#include "ops/ternary_quantize/simd_table.h"
#include "simd/pairwise_fold.h"

namespace tern::ternary_quantize {
namespace {

template <class S>
struct Loops {
  using F = typename S::F;
  using D = typename S::D;
  using I = typename S::I;

  static constexpr std::size_t kLaneStep = 4 * simd::kSumLanes;  // elements that fill every lane once
  static constexpr std::size_t kPart = 4 * S::kD;                // elements of one word of quad sums
  static constexpr std::size_t kParts = kLaneStep / kPart;       // words that hold the 32 lanes
  static constexpr std::size_t kHeld = kParts < 8 ? kParts : 8;  // held in registers at a time
  static constexpr std::size_t kCodeStep = 4 * S::kF;            // elements of one store of codes
  static constexpr std::size_t kPrefetchBytes = 4096;            // ahead of the reader; 2 to 4 KiB measured alike

  // The last n < kStep elements, then zeros, which are neutral for sums, maxima and codes alike.
  template <std::size_t kStep>
  struct Padded {
    float x[kStep];
    Padded(const float* from, std::size_t n) {
      __builtin_memcpy(x, from, n * sizeof(float));
      for (std::size_t i = n; i < kStep; ++i) x[i] = 0.0F;
    }
  };

  static void prefetch_ahead(const float* p, std::size_t bytes) {
    S::prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(p) + bytes));
  }

  // Lane l += lane l + 16, 8, 4, 2, 1.
  static double fold_lanes(D (&part)[kParts]) {
    for (std::size_t half = kParts / 2; half > 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) part[i] = S::add(part[i], part[i + half]);
    double lane[S::kD];
    S::store(lane, part[0]);
    for (std::size_t half = S::kD / 2; half > 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
    return lane[0];
  }

  // The sum of one block of at most 1,024 elements; `quads` gives the words of quad sums.
  template <class Quads>
  static double block_sum(const float* x, std::size_t n, Quads quads) {
    D part[kParts];
    const std::size_t full = n / kLaneStep * kLaneStep;
    for (std::size_t first = 0; first < kParts; first += kHeld) {
      D held[kHeld];
      for (std::size_t i = 0; i < kHeld; ++i) held[i] = S::zero_d();
      const float* p = x + first * kPart;
      for (std::size_t at = 0; at < full; at += kLaneStep)
        for (std::size_t i = 0; i < kHeld; ++i) held[i] = S::add(held[i], quads(p + at + i * kPart));
      for (std::size_t i = 0; i < kHeld; ++i) part[first + i] = held[i];
    }
    if (full < n) {
      const Padded<kLaneStep> rest(x + full, n - full);
      for (std::size_t i = 0; i < kParts; ++i) part[i] = S::add(part[i], quads(rest.x + i * kPart));
    }
    return fold_lanes(part);
  }

  template <class Quads>
  static double tree_sum(const float* x, std::size_t n, Quads quads) {
    if (n <= simd::kSumBlock) return block_sum(x, n, quads);
    simd::PairwiseFold fold;
    for (std::size_t at = 0; at < n; at += simd::kSumBlock)
      fold.add(block_sum(x + at, n - at < simd::kSumBlock ? n - at : simd::kSumBlock, quads));
    return fold.total();
  }

  static double abs_sum(const float* x, std::int64_t n) {
    return tree_sum(x, static_cast<std::size_t>(n), [](const float* p) {
      prefetch_ahead(p, kPrefetchBytes);
      return S::abs_quad_sums(p);
    });
  }

  static double abs_sum_above(const float* x, std::int64_t n, float h, std::int64_t* count) {
    *count = 0;
    I lanes = S::zero_i();
    std::int64_t since = 0;
    const auto flush = [&] {
      std::int32_t each[S::kF];
      S::store(each, lanes);
      for (const std::int32_t c : each) *count += c;
      lanes = S::zero_i();
      since = 0;
    };
    const double sum = tree_sum(x, static_cast<std::size_t>(n), [&](const float* p) {
      if (++since == (1 << 28)) flush();  // a lane counts at most two a call: far from 2^31
      return S::abs_quad_sums_above(p, h, lanes);
    });
    flush();
    return sum;
  }

  // Applies f to every vector of x, the last one padded with zeros.
  template <class Fn>
  static void each_vector(const float* x, std::size_t n, Fn f) {
    const std::size_t full = n / S::kF * S::kF;
    for (std::size_t at = 0; at < full; at += S::kF) f(S::load(x + at));
    if (full < n) f(S::load(Padded<S::kF>(x + full, n - full).x));
  }

  static std::int32_t largest(I m) {
    std::int32_t each[S::kF];
    S::store(each, m);
    std::int32_t top = each[0];
    for (const std::int32_t v : each) top = v > top ? v : top;
    return top;
  }

  static std::uint32_t max_abs_bits(const float* x, std::int64_t n) {
    // Four maxima, so that a vector need not wait for the one before it.
    I m[4] = {S::zero_i(), S::zero_i(), S::zero_i(), S::zero_i()};
    const std::size_t full = static_cast<std::size_t>(n) / kCodeStep * kCodeStep;
    for (std::size_t at = 0; at < full; at += kCodeStep) {
      prefetch_ahead(x + at, kPrefetchBytes);
      prefetch_ahead(x + at + kCodeStep / 2, kPrefetchBytes);
      for (std::size_t i = 0; i < 4; ++i) m[i] = S::max_bits(m[i], S::abs(S::load(x + at + i * S::kF)));
    }
    each_vector(x + full, static_cast<std::size_t>(n) - full, [&](F v) { m[0] = S::max_bits(m[0], S::abs(v)); });
    return static_cast<std::uint32_t>(largest(S::max(S::max(m[0], m[1]), S::max(m[2], m[3]))));
  }

  static void max_signed_bits(const float* x, std::int64_t n, std::int32_t* of) {
    I up = S::zero_i(), down = S::zero_i();
    each_vector(x, static_cast<std::size_t>(n), [&](F v) {
      up = S::max_bits(up, v);
      down = S::max_bits(down, S::negate(v));
    });
    of[0] = largest(up);
    of[1] = largest(down);
  }

  template <int kRule>
  static I code(F x, F by) {
    if constexpr (kRule == kInt2)
      return S::int2(x, by);
    else
      return S::trits(x, by);
  }

  template <int kStore>
  static void store_step(void* out, typename S::B b) {
    if constexpr (kStore == kI2) S::store_i2(static_cast<std::uint8_t*>(out), b);
    if constexpr (kStore == kS2) S::store_s2(static_cast<std::uint8_t*>(out), b);
    if constexpr (kStore == kI8) S::store_i8(static_cast<std::int8_t*>(out), b);
  }

  template <int kRule, int kStore>
  static void code_step(const float* x, F by, void* out) {
    store_step<kStore>(out, S::narrow(code<kRule>(S::load(x), by), code<kRule>(S::load(x + S::kF), by),
                                      code<kRule>(S::load(x + 2 * S::kF), by), code<kRule>(S::load(x + 3 * S::kF), by)));
  }

  // Codes of n elements; `ahead` bytes further on is what will be read next.
  template <int kRule, int kStore>
  static void codes_ahead(const float* x, std::size_t n, float scale, void* codes, std::size_t ahead) {
    constexpr std::size_t kPerByte = kStore == kI8 ? 1 : 4;
    auto* out = static_cast<std::uint8_t*>(codes);
    const F by = S::set1(kRule == kInt2 ? scale : threshold(scale));
    const std::size_t full = n / kCodeStep * kCodeStep;
    for (std::size_t at = 0; at < full; at += kCodeStep) {
      for (std::size_t line = 0; line < kCodeStep; line += 16) prefetch_ahead(x + at + line, ahead);
      code_step<kRule, kStore>(x + at, by, out + at / kPerByte);
    }
    if (full < n) {
      std::uint8_t step[kCodeStep / kPerByte];
      code_step<kRule, kStore>(Padded<kCodeStep>(x + full, n - full).x, by, step);
      const std::size_t bytes = (n - full + kPerByte - 1) / kPerByte;
      for (std::size_t i = 0; i < bytes; ++i) out[full / kPerByte + i] = step[i];
    }
  }

  template <int kRule, int kStore>
  static void codes(const float* x, std::int64_t n, float scale, void* out) {
    codes_ahead<kRule, kStore>(x, static_cast<std::size_t>(n), scale, out, kPrefetchBytes);
  }

  // The scale of a range, or 0 when it holds a non-finite value.
  template <int kRule>
  static float range_scale(const float* x, std::int64_t n) {
    if constexpr (kRule == kAbsmax) {
      const std::uint32_t bits = max_abs_bits(x, n);
      return bits < kInfinityBits ? max_scale(bits) : 0.0F;
    } else if constexpr (kRule == kInt2) {
      std::int32_t of[2];
      max_signed_bits(x, n, of);
      const auto infinity = static_cast<std::int32_t>(kInfinityBits);
      return of[0] < infinity && of[1] < infinity ? int2_scale(of) : 0.0F;
    } else {
      const double sum = abs_sum(x, n);
      if (!(sum < __builtin_huge_val())) return 0.0F;
      float scale = mean_scale(sum, n);
      if constexpr (kRule == kMse) {
        for (int round = 1; round <= kMaxMseRounds; ++round) {
          std::int64_t count = 0;
          const double above = abs_sum_above(x, n, threshold(scale), &count);
          if (count == 0) break;
          const float next = mean_scale(above, count);
          if (next == scale) break;
          scale = next;
        }
      }
      return scale;
    }
  }

  template <int kRule, int kStore>
  static std::int64_t ranges(const float* x, std::int64_t count, std::int64_t len, float* scales, void* codes) {
    auto* out = static_cast<std::uint8_t*>(codes);
    const std::int64_t bytes = kStore == kI8 ? len : (len + 3) / 4;
    // While the codes of a range come out of the cache, the next one is fetched.
    const std::size_t len_bytes = static_cast<std::size_t>(len) * sizeof(float);
    const std::size_t ahead = len_bytes > kPrefetchBytes ? len_bytes : kPrefetchBytes;
    for (std::int64_t i = 0; i < count; ++i) {
      const float scale = range_scale<kRule>(x, len);
      if (scale == 0.0F) return i;
      __builtin_memcpy(scales + i, &scale, sizeof scale);  // a caller's pointer may have any alignment
      codes_ahead<kRule, kStore>(x, static_cast<std::size_t>(len), scale, out, ahead);
      x += len;
      out += bytes;
    }
    return -1;
  }

  static constexpr SimdTable table() {
    SimdTable t{};
    t.abs_sum = abs_sum;
    t.abs_sum_above = abs_sum_above;
    t.max_abs_bits = max_abs_bits;
    t.max_signed_bits = max_signed_bits;
    add_rule<kAbsmean, kI2>(t);
    add_rule<kAbsmax, kI2>(t);
    add_rule<kMse, kI2>(t);
    add_rule<kInt2, kS2>(t);
    return t;
  }

 private:
  // A rule with its packed store and with i8.
  template <int kRule, int kPacked>
  static constexpr void add_rule(SimdTable& t) {
    t.ranges[kRule][kPacked] = ranges<kRule, kPacked>;
    t.ranges[kRule][kI8] = ranges<kRule, kI8>;
    t.codes[kRule][kPacked] = codes<kRule, kPacked>;
    t.codes[kRule][kI8] = codes<kRule, kI8>;
  }
};

}  // namespace
}  // namespace tern::ternary_quantize
