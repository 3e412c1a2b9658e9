// The loops of ternary_quantize over f64, in plain code that the compiler vectorizes with the ISA's flags.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/ternary_quantize/pair_loops.h"
#include "ops/ternary_quantize/scale.h"
#include "ops/ternary_quantize/simd_table.h"
#include "simd/pairwise_fold.h"

namespace tern::ternary_quantize {
namespace {

struct F64Loops {
  static constexpr std::size_t kLaneStep = 4 * simd::kSumLanes;  // elements that fill every lane once
  static constexpr std::size_t kCodeStep = 64;  // elements coded at a time: several vectors of any width

  // n elements of any alignment, then zeros, which are neutral for sums, maxima and codes alike.
  template <std::size_t kStep>
  struct Step {
    double x[kStep];
    Step(const void* from, std::size_t at, std::size_t n) {
      __builtin_memcpy(x, static_cast<const double*>(from) + at, n * sizeof(double));
      for (std::size_t i = n; i < kStep; ++i) x[i] = 0.0;
    }
  };
  // Calls f(elements, at, part) for every kStep elements: `at` is the index of the first, `part` their number before
  // padding.
  template <std::size_t kStep, class Fn>
  static void each_step(const void* x, std::size_t begin, std::size_t end, Fn f) {
    std::size_t at = begin;
    for (; at + kStep <= end; at += kStep) f(Step<kStep>(x, at, kStep).x, at, kStep);
    if (at < end) f(Step<kStep>(x, at, end - at).x, at, end - at);
  }

  // The sum of kept(x) in the contract's order.
  template <class Keep>
  static double tree_sum(const void* x, std::int64_t elems, Keep kept) {
    const auto n = static_cast<std::size_t>(elems);
    simd::PairwiseFold fold;
    for (std::size_t block = 0; block < n; block += simd::kSumBlock) {
      double lane[simd::kSumLanes] = {};
      const std::size_t end = n - block < simd::kSumBlock ? n : block + simd::kSumBlock;
      each_step<kLaneStep>(x, block, end, [&](const double* p, std::size_t, std::size_t) {
        double a[kLaneStep];
        for (std::size_t i = 0; i < kLaneStep; ++i) a[i] = kept(p[i]);
        for (std::size_t l = 0; l < simd::kSumLanes; ++l)
          lane[l] += (a[4 * l] + a[4 * l + 1]) + (a[4 * l + 2] + a[4 * l + 3]);
      });
      for (std::size_t half = simd::kSumLanes / 2; half > 0; half /= 2)
        for (std::size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
      fold.add(lane[0]);
    }
    return fold.total();
  }

  static double abs_sum(const void* x, std::int64_t n) {
    return tree_sum(x, n, [](double v) { return __builtin_fabs(v); });
  }
  static double abs_sum_above(const void* x, std::int64_t n, double h, std::int64_t* count) {
    std::int64_t above = 0;
    const double sum = tree_sum(x, n, [&](double v) {
      const double a = __builtin_fabs(v);
      above += a > h ? 1 : 0;
      return a > h ? a : 0.0;
    });
    *count = above;
    return sum;
  }

  // Doubles that are not negative order like their bits, with NaN above infinity.
  static constexpr std::int64_t kInfinity = 0x7FF0'0000'0000'0000;
  static double finite(std::int64_t bits) {
    return bits >= kInfinity ? __builtin_huge_val() : __builtin_bit_cast(double, bits);
  }
  static std::int64_t max(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

  static double max_abs(const void* x, std::int64_t n) {
    std::int64_t top[8] = {};
    each_step<kCodeStep>(x, 0, static_cast<std::size_t>(n), [&](const double* p, std::size_t, std::size_t) {
      for (std::size_t i = 0; i < kCodeStep; ++i)
        top[i % 8] = max(top[i % 8], __builtin_bit_cast(std::int64_t, __builtin_fabs(p[i])));
    });
    for (int i = 1; i < 8; ++i) top[0] = max(top[0], top[i]);
    return finite(top[0]);
  }
  static void max_signed(const void* x, std::int64_t n, double* of) {
    std::int64_t up = 0, down = 0;
    each_step<kCodeStep>(x, 0, static_cast<std::size_t>(n), [&](const double* p, std::size_t, std::size_t) {
      for (std::size_t i = 0; i < kCodeStep; ++i) {
        up = max(up, __builtin_bit_cast(std::int64_t, p[i]));
        down = max(down, __builtin_bit_cast(std::int64_t, -p[i]));
      }
    });
    of[0] = finite(up);
    of[1] = finite(down);
  }

  static void error_sums(const void* x, std::int64_t n, double h, double* of) {
    constexpr std::size_t kLanes = 8;
    double squares[kLanes] = {}, above[kLanes] = {};
    each_step<kCodeStep>(x, 0, static_cast<std::size_t>(n), [&](const double* p, std::size_t, std::size_t) {
      for (std::size_t i = 0; i < kCodeStep; ++i) {
        const double a = __builtin_fabs(p[i]);
        squares[i % kLanes] += a * a;
        above[i % kLanes] += a > h ? a : 0.0;
      }
    });
    for (std::size_t half = kLanes / 2; half > 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) {
        squares[i] += squares[i + half];
        above[i] += above[i + half];
      }
    of[0] = squares[0];
    of[1] = above[0];
  }

  template <int kRule>
  static std::int8_t code(double x, double by) {
    if constexpr (kRule != kInt2) return static_cast<std::int8_t>((x > by ? 1 : 0) - (x < -by ? 1 : 0));
    double q = x / by;
    q = q > -2.0 ? q : -2.0;
    q = q < 1.0 ? q : 1.0;
    return static_cast<std::int8_t>((q + 0x1.8p52) - 0x1.8p52);  // the sum rounds to an integer, nearest even
  }

  template <int kRule, int kStore>
  static void codes(const void* x, std::int64_t n, float scale, void* codes) {
    auto* out = static_cast<std::uint8_t*>(codes);
    const auto wide = static_cast<double>(scale);
    const double by = kRule == kInt2 ? wide : threshold(wide);
    each_step<kCodeStep>(x, 0, static_cast<std::size_t>(n), [&](const double* p, std::size_t at, std::size_t part) {
      std::int8_t q[kCodeStep];
      for (std::size_t i = 0; i < kCodeStep; ++i) q[i] = code<kRule>(p[i], by);
      if constexpr (kStore == kI8) {
        __builtin_memcpy(out + at, q, part);
      } else {
        std::uint8_t bytes[kCodeStep / 4];
        for (std::size_t i = 0; i < kCodeStep / 4; ++i) {
          unsigned byte = 0;
          for (std::size_t j = 0; j < 4; ++j)
            byte |= (static_cast<unsigned>(q[4 * i + j] + (kStore == kI2 ? 1 : 0)) & 3U) << (2 * j);
          bytes[i] = static_cast<std::uint8_t>(byte);
        }
        __builtin_memcpy(out + at / 4, bytes, (part + 3) / 4);
      }
    });
  }

  static constexpr SourceLoops loops() {
    SourceLoops l{};
    l.max_len = 0;
    l.abs_sum = abs_sum;
    l.abs_sum_above = abs_sum_above;
    l.max_abs = max_abs;
    l.max_signed = max_signed;
    l.error_sums = error_sums;
    l.pair_sums = pair_sums_f64;
    add_codes<F64Loops>(l);
    return l;
  }
};

}  // namespace
}  // namespace tern::ternary_quantize
