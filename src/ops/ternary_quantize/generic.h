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
  // What is read from memory is fetched twice: far ahead into the second-level cache, which can wait for more lines at
  // a time than the first, and near ahead into the first. On a Xeon of family 6, model 207, both together measured
  // faster than either alone; between 8 and 16 KiB far the noise was larger than the difference.
  static constexpr std::size_t kFarBytes = 16384;
  static constexpr std::size_t kNearBytes = 1024;

  // The last n < kStep elements, then zeros, which are neutral for sums, maxima and codes alike.
  template <std::size_t kStep>
  struct Padded {
    float x[kStep];
    Padded(const float* from, std::size_t n) {
      __builtin_memcpy(x, from, n * sizeof(float));
      for (std::size_t i = n; i < kStep; ++i) x[i] = 0.0F;
    }
  };

  // The far fetch: two lines for every 128 bytes read now; with kShift 1 one line, because a range is read twice (for
  // its scale, then for its codes) and each pass fetches half of the next.
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
  };
  using Streaming = Far<0>;
  using Half = Far<1>;

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
  template <class Quads, class Fetch>
  static double block_sum(const float* x, std::size_t n, Quads quads, Fetch fetch) {
    D part[kParts];
    const std::size_t full = n / kLaneStep * kLaneStep;
    for (std::size_t first = 0; first < kParts; first += kHeld) {
      D held[kHeld];
      for (std::size_t i = 0; i < kHeld; ++i) held[i] = S::zero_d();
      const float* p = x + first * kPart;
      for (std::size_t at = 0; at < full; at += kLaneStep) {
        if (first == 0)
          for (std::size_t i = 0; i < kLaneStep; i += 32) fetch(at + i);
        for (std::size_t i = 0; i < kHeld; ++i) held[i] = S::add(held[i], quads(p + at + i * kPart));
      }
      for (std::size_t i = 0; i < kHeld; ++i) part[first + i] = held[i];
    }
    if (full < n) {
      const Padded<kLaneStep> rest(x + full, n - full);
      for (std::size_t i = 0; i < kParts; ++i) part[i] = S::add(part[i], quads(rest.x + i * kPart));
    }
    return fold_lanes(part);
  }

  template <class Quads, int kShift>
  static double tree_sum(const float* x, std::size_t n, Quads quads, Far<kShift> far) {
    if (n <= simd::kSumBlock) return block_sum(x, n, quads, [&](std::size_t at) { far.fetch_both(at); });
    simd::PairwiseFold fold;
    for (std::size_t at = 0; at < n; at += simd::kSumBlock)
      fold.add(block_sum(x + at, n - at < simd::kSumBlock ? n - at : simd::kSumBlock, quads,
                         [&](std::size_t i) { far.fetch_both(at + i); }));
    return fold.total();
  }

  template <int kShift>
  static double abs_sum_ahead(const float* x, std::size_t n, Far<kShift> far) {
    return tree_sum(
        x, n, [](const float* p) { return S::abs_quad_sums(p); }, far);
  }
  static double abs_sum(const float* x, std::int64_t n) {
    return abs_sum_ahead(x, static_cast<std::size_t>(n), Streaming{x, kFarBytes});
  }

  static double abs_sum_above(const float* x, std::int64_t n, float h, std::int64_t* count) {
    *count = 0;
    I lanes = S::zero_i();
    int since = 0;
    const auto flush = [&] {
      *count += S::sum_lanes(lanes);
      lanes = S::zero_i();
      since = 0;
    };
    const auto quads = [&](const float* p) {
      if (++since == 1 << 24) flush();  // a lane counts at most two a call: their sum stays far from 2^31
      return S::abs_quad_sums_above(p, h, lanes);
    };
    const double sum = tree_sum(x, static_cast<std::size_t>(n), quads, Streaming{x, kFarBytes});
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

  template <int kShift>
  static std::uint32_t max_abs_bits_ahead(const float* x, std::size_t n, Far<kShift> far) {
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
  static std::uint32_t max_abs_bits(const float* x, std::int64_t n) {
    return max_abs_bits_ahead(x, static_cast<std::size_t>(n), Streaming{x, kFarBytes});
  }

  static void max_signed_bits(const float* x, std::int64_t n, std::int32_t* of) {
    I up = S::zero_i(), down = S::zero_i();
    each_vector(x, static_cast<std::size_t>(n), [&](F v) {
      up = S::max_bits(up, v);
      down = S::max_bits(down, S::negate(v));
    });
    of[0] = S::max_lane(up);
    of[1] = S::max_lane(down);
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
    store_step<kStore>(out,
                       S::narrow(code<kRule>(S::load(x), by), code<kRule>(S::load(x + S::kF), by),
                                 code<kRule>(S::load(x + 2 * S::kF), by), code<kRule>(S::load(x + 3 * S::kF), by)));
  }

  template <int kRule, int kStore, int kShift>
  static void codes_ahead(const float* x, std::size_t n, float scale, void* codes, Far<kShift> far) {
    constexpr std::size_t kPerByte = kStore == kI8 ? 1 : 4;
    auto* out = static_cast<std::uint8_t*>(codes);
    const F by = S::set1(kRule == kInt2 ? scale : threshold(scale));
    const std::size_t full = n / kCodeStep * kCodeStep;
    for (std::size_t at = 0; at < full; at += kCodeStep) {
      for (std::size_t i = 0; i < kCodeStep; i += 32)
        if ((at + i) % 32 == 0) kShift == 0 ? far.fetch_both(at + i) : far.fetch(at + i);
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
    codes_ahead<kRule, kStore>(x, static_cast<std::size_t>(n), scale, out, Streaming{x, kFarBytes});
  }

  // The scale of a range, or 0 when it holds a non-finite value.
  template <int kRule>
  static float range_scale(const float* x, std::int64_t n, Half far) {
    if constexpr (kRule == kAbsmax) {
      const std::uint32_t bits = max_abs_bits_ahead(x, static_cast<std::size_t>(n), far);
      return bits < kInfinityBits ? max_scale(bits) : 0.0F;
    } else if constexpr (kRule == kInt2) {
      std::int32_t of[2];
      max_signed_bits(x, n, of);
      const auto infinity = static_cast<std::int32_t>(kInfinityBits);
      return of[0] < infinity && of[1] < infinity ? int2_scale(of) : 0.0F;
    } else {
      const double sum = abs_sum_ahead(x, static_cast<std::size_t>(n), far);
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
    const std::size_t len_bytes = static_cast<std::size_t>(len) * sizeof(float);
    const std::size_t ahead = len_bytes > kFarBytes ? len_bytes : kFarBytes;
    for (std::int64_t i = 0; i < count; ++i) {
      const float scale = range_scale<kRule>(x, len, Half{x, ahead});
      if (scale == 0.0F) return i;
      __builtin_memcpy(scales + i, &scale, sizeof scale);  // a caller's pointer may have any alignment
      codes_ahead<kRule, kStore>(x, static_cast<std::size_t>(len), scale, out, Half{x, ahead + len_bytes / 2});
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
