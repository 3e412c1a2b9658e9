// The loops of ternary_quantize over f32, written once for any set of vector operations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/ternary_quantize/error_loops.h"
#include "ops/ternary_quantize/pair_loops.h"
#include "ops/ternary_quantize/scale.h"
#include "ops/ternary_quantize/simd_table.h"
#include "simd/pairwise_fold.h"

namespace tern::ternary_quantize {
namespace {

template <class S>
struct F32Loops {
  using F = typename S::F;
  using D = typename S::D;
  using I = typename S::I;

  static constexpr std::size_t kLaneStep = 4 * simd::kSumLanes;  // elements that fill every lane once
  static constexpr std::size_t kPart = 4 * S::kD;                // elements of one vector of quad sums
  static constexpr std::size_t kParts = kLaneStep / kPart;       // vectors that hold the 32 lanes
  static constexpr std::size_t kHeld = kParts < 8 ? kParts : 8;  // held in registers at a time
  static constexpr std::size_t kCodeStep = 4 * S::kF;            // elements of one store of codes
  // Data from memory is prefetched twice: far ahead into L2, which can wait for more lines at a time than L1, and near
  // ahead into L1. On a Xeon of family 6, model 207, both together measured faster than either alone; between 8 and 16
  // KiB ahead into L2 the noise was larger than the difference.
  static constexpr std::size_t kFarBytes = 16384;
  static constexpr std::size_t kNearBytes = 1024;

  // The last n < kStep elements, then zeros, which are neutral for sums, maxima and codes alike.
  template <std::size_t kStep, class T = float>
  struct Padded {
    T x[kStep];
    Padded(const T* from, std::size_t n) {
      __builtin_memcpy(x, from, n * sizeof(T));
      for (std::size_t i = n; i < kStep; ++i) x[i] = T{};
    }
  };

  // The far prefetch: two lines for every 128 bytes read. With kShift 1 it is one line, because a range is read twice
  // (for its scale, then for its codes) and each pass prefetches half of the next range.
  template <int kShift>
  struct Far {
    const float* x;
    std::size_t ahead_bytes;
    void fetch(std::size_t read_elems) const {  // a multiple of 32
      const std::uintptr_t at =
          reinterpret_cast<std::uintptr_t>(x) + ahead_bytes + (read_elems * sizeof(float) >> kShift);
      S::prefetch_l2(reinterpret_cast<const void*>(at));
      if (kShift == 0) S::prefetch_l2(reinterpret_cast<const void*>(at + 64));
    }
    // Far and near, for a pass that reads from memory.
    void fetch_both(std::size_t read_elems) const {
      const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(x) + kNearBytes + read_elems * sizeof(float);
      S::prefetch_l1(reinterpret_cast<const void*>(at));
      S::prefetch_l1(reinterpret_cast<const void*>(at + 64));
      fetch(read_elems);
    }
    void fetch_for_codes(std::size_t read_elems) const { kShift == 0 ? fetch_both(read_elems) : fetch(read_elems); }
  };
  using Streaming = Far<0>;
  using Half = Far<1>;
  // For elements that are in L1 already.
  struct InCache {
    void fetch_both(std::size_t) const {}
    void fetch_for_codes(std::size_t) const {}
  };

  // Lane l += lane l + 16, 8, 4, 2, 1.
  [[gnu::always_inline]] static double fold_lanes(D (&part)[kParts]) {
    for (std::size_t half = kParts / 2; half > 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) part[i] = S::add(part[i], part[i + half]);
    double lane[S::kD];
    S::store(lane, part[0]);
    for (std::size_t half = S::kD / 2; half > 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
    return lane[0];
  }

  // The sum of one block of at most 1,024 elements; `quads` gives a vector of quad sums. T is float, or bf16 as bits.
  template <class T, class Quads, class Fetch>
  static double block_sum(const T* x, std::size_t n, Quads quads, Fetch fetch) {
    D part[kParts];
    const std::size_t full = n / kLaneStep * kLaneStep;
    for (std::size_t first = 0; first < kParts; first += kHeld) {
      D held[kHeld];
      for (std::size_t i = 0; i < kHeld; ++i) held[i] = S::zero_d();
      const T* p = x + first * kPart;
      for (std::size_t at = 0; at < full; at += kLaneStep) {
        if (first == 0)
          for (std::size_t i = 0; i < kLaneStep; i += 32) fetch(at + i);
        for (std::size_t i = 0; i < kHeld; ++i) held[i] = S::add(held[i], quads(p + at + i * kPart));
      }
      for (std::size_t i = 0; i < kHeld; ++i) part[first + i] = held[i];
    }
    if (full < n) {
      const Padded<kLaneStep, T> rest(x + full, n - full);
      for (std::size_t i = 0; i < kParts; ++i) part[i] = S::add(part[i], quads(rest.x + i * kPart));
    }
    return fold_lanes(part);
  }

  template <class Quads, class Ahead>
  static double tree_sum(const float* x, std::size_t n, Quads quads, Ahead far) {
    if (n <= simd::kSumBlock) return block_sum(x, n, quads, [&](std::size_t at) { far.fetch_both(at); });
    simd::PairwiseFold fold;
    for (std::size_t at = 0; at < n; at += simd::kSumBlock)
      fold.add(block_sum(x + at, n - at < simd::kSumBlock ? n - at : simd::kSumBlock, quads,
                         [&](std::size_t i) { far.fetch_both(at + i); }));
    return fold.total();
  }

  template <class Ahead>
  static double abs_sum_ahead(const float* x, std::size_t n, Ahead far) {
    return tree_sum(
        x, n, [](const float* p) __attribute__((always_inline)) { return S::abs_quad_sums(p); }, far);
  }
  static double abs_sum(const void* x, std::int64_t n) {
    return abs_sum_ahead(as_f32(x), static_cast<std::size_t>(n), streaming(x));
  }

  template <class Ahead>
  static double abs_sum_above_ahead(const float* x, std::size_t n, float h, std::int64_t* count, Ahead far) {
    *count = 0;
    I lanes = S::zero_i();
    int since = 0;
    const auto flush = [&] {
      *count += S::sum_lanes(lanes);
      lanes = S::zero_i();
      since = 0;
    };
    const auto quads = [&](const float* p) __attribute__((always_inline)) {
      if (++since == 1 << 24) flush();  // a lane counts at most two per call, so sums stay far below 2^31
      return S::abs_quad_sums_above(p, h, lanes);
    };
    const double sum = tree_sum(x, n, quads, far);
    flush();
    return sum;
  }
  static double abs_sum_above(const void* x, std::int64_t n, double h, std::int64_t* count) {
    return abs_sum_above_ahead(as_f32(x), static_cast<std::size_t>(n), static_cast<float>(h), count, streaming(x));
  }

  // Applies f to every vector of x, the last one padded with zeros.
  template <class Fn>
  static void each_vector(const float* x, std::size_t n, Fn f) {
    const std::size_t full = n / S::kF * S::kF;
    for (std::size_t at = 0; at < full; at += S::kF) f(S::load(x + at));
    if (full < n) f(S::load(Padded<S::kF>(x + full, n - full).x));
  }

  template <class Ahead>
  [[gnu::always_inline]] static std::uint32_t max_abs_bits_ahead(const float* x, std::size_t n, Ahead far) {
    // Four maxima, so that a vector need not wait for the one before it.
    I m[4] = {S::zero_i(), S::zero_i(), S::zero_i(), S::zero_i()};
    constexpr std::size_t kStep = kCodeStep < 32 ? 32 : kCodeStep;
    const std::size_t full = n / kStep * kStep;
    for (std::size_t at = 0; at < full; at += kStep) {
      for (std::size_t i = 0; i < kStep; i += 32) far.fetch_both(at + i);
      for (std::size_t i = 0; i < kStep / S::kF; ++i)
        m[i % 4] = S::max_bits(m[i % 4], S::abs(S::load(x + at + i * S::kF)));
    }
    each_vector(x + full, n - full, [&](F v) { m[0] = S::max_bits(m[0], S::abs(v)); });
    return static_cast<std::uint32_t>(S::max_lane(S::max(S::max(m[0], m[1]), S::max(m[2], m[3]))));
  }
  // A maximum as SourceLoops returns it: infinite if it is not finite, 0 if it is negative.
  static double finite(std::int32_t bits) {
    if (bits >= static_cast<std::int32_t>(kInfinityBits)) return __builtin_huge_val();
    return bits > 0 ? static_cast<double>(__builtin_bit_cast(float, bits)) : 0.0;
  }
  static double max_abs(const void* x, std::int64_t n) {
    return finite(static_cast<std::int32_t>(max_abs_bits_ahead(as_f32(x), static_cast<std::size_t>(n), streaming(x))));
  }

  static void max_signed(const void* x, std::int64_t n, double* of) {
    I up = S::zero_i(), down = S::zero_i();
    each_vector(
        as_f32(x), static_cast<std::size_t>(n), [&](F v) __attribute__((always_inline)) {
          up = S::max_bits(up, v);
          down = S::max_bits(down, S::negate(v));
        });
    of[0] = finite(S::max_lane(up));
    of[1] = finite(S::max_lane(down));
  }

  static void error_sums(const void* x, std::int64_t n, double h, double* of) {
    using Errors = ErrorLoops<S>;
    Errors::sums(as_f32(x), static_cast<std::size_t>(n), static_cast<float>(h), of,
                 [](const float* p, typename Errors::Lanes& a) {
                   for (std::size_t i = 0; i < Errors::kVectors; ++i) a[i] = S::abs(S::load(p + i * S::kF));
                 });
  }

  static void pair_sums(const void* x, const void* y, std::int64_t n, double* of, std::int64_t* zeros) {
    PairLoops<S>::template block<kNearBytes>(as_f32(x), as_f32(y), static_cast<std::size_t>(n), of, zeros);
  }

  template <int kRule>
  [[gnu::always_inline]] static I code(F x, F by) {
    if constexpr (kRule == kInt2)
      return S::int2(x, by);
    else
      return S::trits(x, by);
  }

  template <int kStore>
  [[gnu::always_inline]] static void store_step(void* out, typename S::B b) {
    if constexpr (kStore == kI2) S::store_i2(static_cast<std::uint8_t*>(out), b);
    if constexpr (kStore == kS2) S::store_s2(static_cast<std::uint8_t*>(out), b);
    if constexpr (kStore == kI8) S::store_i8(static_cast<std::int8_t*>(out), b);
  }

  template <int kRule, int kStore>
  [[gnu::always_inline]] static void code_step(const float* x, F by, void* out) {
    store_step<kStore>(out,
                       S::narrow(code<kRule>(S::load(x), by), code<kRule>(S::load(x + S::kF), by),
                                 code<kRule>(S::load(x + 2 * S::kF), by), code<kRule>(S::load(x + 3 * S::kF), by)));
  }

  template <int kRule, int kStore, class Ahead>
  [[gnu::always_inline]] static void codes_ahead(const float* x, std::size_t n, float scale, void* codes, Ahead far) {
    constexpr std::size_t kPerByte = kStore == kI8 ? 1 : 4;
    auto* out = static_cast<std::uint8_t*>(codes);
    const F by = S::set1(kRule == kInt2 ? scale : threshold(scale));
    const std::size_t full = n / kCodeStep * kCodeStep;
    for (std::size_t at = 0; at < full; at += kCodeStep) {
      for (std::size_t i = 0; i < kCodeStep; i += 32)
        if ((at + i) % 32 == 0) far.fetch_for_codes(at + i);
      code_step<kRule, kStore>(x + at, by, out + at / kPerByte);
    }
    if (full < n) {
      std::uint8_t step[kCodeStep / kPerByte];
      const Padded<kCodeStep> rest(x + full, n - full);
      code_step<kRule, kStore>(rest.x, by, step);
      const std::size_t bytes = (n - full + kPerByte - 1) / kPerByte;
      for (std::size_t i = 0; i < bytes; ++i) out[full / kPerByte + i] = step[i];
    }
  }

  template <int kRule, int kStore>
  static void codes(const void* x, std::int64_t n, float scale, void* out) {
    codes_ahead<kRule, kStore>(as_f32(x), static_cast<std::size_t>(n), scale, out, streaming(x));
  }

  // The scale of a range, or 0 when it holds a non-finite value. `again` prefetches for the rounds of mse.
  template <int kRule, class Ahead, class Again>
  static float range_scale(const float* x, std::int64_t n, Ahead far, Again again) {
    if constexpr (kRule == kAbsmax) {
      const std::uint32_t bits = max_abs_bits_ahead(x, static_cast<std::size_t>(n), far);
      return bits < kInfinityBits ? max_scale(__builtin_bit_cast(float, bits)) : 0.0F;
    } else if constexpr (kRule == kInt2) {
      double of[2];
      max_signed(x, n, of);
      const bool clean = of[0] < __builtin_huge_val() && of[1] < __builtin_huge_val();
      return clean ? int2_scale(static_cast<float>(of[0]), static_cast<float>(of[1])) : 0.0F;
    } else {
      const double sum = abs_sum_ahead(x, static_cast<std::size_t>(n), far);
      if (!(sum < __builtin_huge_val())) return 0.0F;
      auto scale = mean_scale<float>(sum, n);
      if constexpr (kRule == kMse) {
        for (int round = 1; round <= kMaxMseRounds; ++round) {
          std::int64_t count = 0;
          const double above = abs_sum_above_ahead(x, static_cast<std::size_t>(n), threshold(scale), &count, again);
          if (count == 0) break;
          const auto next = mean_scale<float>(above, count);
          if (next == scale) break;
          scale = next;
        }
      }
      return scale;
    }
  }

  // Computes the scale and then the codes of each of `count` ranges. read(x) and write(x) prefetch for the two passes
  // over a range.
  template <int kRule, int kStore, class Read, class Write, class Again>
  static std::int64_t each_range(const float* x, std::int64_t count, std::int64_t len, float* scales, void* codes,
                                 Read read, Write write, Again again) {
    auto* out = static_cast<std::uint8_t*>(codes);
    const std::int64_t bytes = kStore == kI8 ? len : (len + 3) / 4;
    for (std::int64_t i = 0; i < count; ++i) {
      const float scale = range_scale<kRule>(x, len, read(x), again(x));
      if (scale == 0.0F) return i;
      __builtin_memcpy(scales + i, &scale, sizeof scale);  // a caller's pointer may have any alignment
      codes_ahead<kRule, kStore>(x, static_cast<std::size_t>(len), scale, out, write(x));
      x += len;
      out += bytes;
    }
    return -1;
  }
  template <int kRule, int kStore>
  static std::int64_t ranges(const void* x, std::int64_t count, std::int64_t len, float* scales, void* codes) {
    const std::size_t len_bytes = static_cast<std::size_t>(len) * sizeof(float);
    const std::size_t ahead = len_bytes > kFarBytes ? len_bytes : kFarBytes;
    return each_range<kRule, kStore>(
        as_f32(x), count, len, scales, codes,
        [&](const float* p) {
          return Half{p, ahead};
        },
        [&](const float* p) {
          return Half{p, ahead + len_bytes / 2};
        },
        [](const float* p) { return streaming(p); });
  }
  template <int kRule, int kStore>
  static std::int64_t ranges_in_cache(const float* x, std::int64_t count, std::int64_t len, float* scales,
                                      void* codes) {
    constexpr auto kStay = [](const float*) { return InCache{}; };
    return each_range<kRule, kStore>(x, count, len, scales, codes, kStay, kStay, kStay);
  }

  static constexpr SourceLoops loops() {
    SourceLoops l{};
    l.max_len = INT64_MAX;
    l.abs_sum = abs_sum;
    l.abs_sum_above = abs_sum_above;
    l.max_abs = max_abs;
    l.max_signed = max_signed;
    l.error_sums = error_sums;
    l.pair_sums = pair_sums;
    add_codes<F32Loops>(l);
    return l;
  }

 private:
  static const float* as_f32(const void* x) { return static_cast<const float*>(x); }
  static Streaming streaming(const void* x) { return {as_f32(x), kFarBytes}; }
};

}  // namespace
}  // namespace tern::ternary_quantize
