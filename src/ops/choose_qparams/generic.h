// The loops of choose_qparams, written once for all SIMD instruction sets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "ops/affine/float_words.h"
#include "ops/choose_qparams/simd_table.h"
#include "ops/ternary_quantize/f32_loops.h"
#include "ops/ternary_quantize/f64_loops.h"

namespace tern::choose_qparams {
namespace {

template <class S>
struct Loops {
  using F = typename S::F;
  using D = typename S::D;
  using I = typename S::I;
  using F32 = ternary_quantize::F32Loops<S>;
  using F64 = ternary_quantize::F64Loops;

  static constexpr std::int32_t kInfinity = 0x7F80'0000;
  static constexpr std::size_t kStep = 4 * S::kF;  // elements between two prefetches
  // The prefetch distances are those measured for ternary_quantize, but the far one is shorter than affine_quantize's
  // 16384. dynamic_quantize runs both loops over chunks of 8 KiB; with different distances each loop prefetches half of
  // the data to come, so memory is not idle in one loop while the other waits for it.
  static constexpr std::size_t kFarBytes = 12288;

  template <int kType>
  using Element = affine::Element<kType>;

  // Compared as signed integers, the bits of non-negative floats have the order of the floats, with NaN on top, and
  // those of negative floats are below +0. So of x and -x only the one without a sign counts, also for NaN.
  struct Top {
    I up = S::zero_i(), down = S::zero_i();
    void see(F v) {
      up = S::max_bits(up, v);
      down = S::max_bits(down, S::negate(v));
    }
  };

  // Returns whether all elements were finite.
  template <int kType>
  static bool range(const Element<kType>* x, std::size_t n, float* up, float* down) {
    Top a, b;  // two accumulators, so that a vector need not wait for the one before it
    std::size_t at = 0;
    for (; at + kStep <= n; at += kStep) {
      const auto here = reinterpret_cast<std::uintptr_t>(x + at);
      for (std::size_t line = 0; line < kStep * sizeof(*x); line += 64) {
        S::prefetch_l1(reinterpret_cast<const void*>(here + F32::kNearBytes + line));
        S::prefetch_l2(reinterpret_cast<const void*>(here + kFarBytes + line));
      }
      for (std::size_t i = 0; i < 4; i += 2) {
        a.see(affine::Floats<S>::template load<kType>(x + at + i * S::kF));
        b.see(affine::Floats<S>::template load<kType>(x + at + (i + 1) * S::kF));
      }
    }
    for (; at + S::kF <= n; at += S::kF) a.see(affine::Floats<S>::template load<kType>(x + at));
    if (at < n) {
      Element<kType> rest[S::kF] = {};
      __builtin_memcpy(rest, x + at, (n - at) * sizeof(*x));
      b.see(affine::Floats<S>::template load<kType>(rest));
    }
    const std::int32_t top = S::max_lane(S::max(a.up, b.up)), bottom = S::max_lane(S::max(a.down, b.down));
    *up = __builtin_bit_cast(float, top);
    *down = __builtin_bit_cast(float, bottom);
    return top < kInfinity && bottom < kInfinity;
  }
  template <int kType>
  static bool extremes(const void* from, std::int64_t count, std::int64_t len, float* up, float* down) {
    const auto* x = static_cast<const Element<kType>*>(from);
    bool finite = true;
    for (std::int64_t i = 0; i < count; ++i, x += len) {
      const bool here = range<kType>(x, static_cast<std::size_t>(len), up + i, down + i);
      finite = finite && here;
    }
    return finite;
  }

  template <int kType>
  static void each_step(const Element<kType>* x, I& top, float* up, float* down) {
    const F v = affine::Floats<S>::template load<kType>(x), most = S::set1(__builtin_huge_valf());
    top = S::max_bits(top, S::abs(v));
    S::store(up, S::clamp(v, S::load(up), most));
    S::store(down, S::clamp(S::negate(v), S::load(down), most));
  }
  template <int kType>
  static bool each(const void* from, std::int64_t elems, float* up, float* down) {
    const auto* x = static_cast<const Element<kType>*>(from);
    const auto n = static_cast<std::size_t>(elems);
    I top = S::zero_i();
    std::size_t at = 0;
    for (; at + S::kF <= n; at += S::kF) each_step<kType>(x + at, top, up + at, down + at);
    if (at < n) {
      Element<kType> rest[S::kF] = {};
      float highest[S::kF] = {}, lowest[S::kF] = {};
      __builtin_memcpy(rest, x + at, (n - at) * sizeof(*x));
      __builtin_memcpy(highest, up + at, (n - at) * sizeof(float));
      __builtin_memcpy(lowest, down + at, (n - at) * sizeof(float));
      each_step<kType>(rest, top, highest, lowest);
      __builtin_memcpy(up + at, highest, (n - at) * sizeof(float));
      __builtin_memcpy(down + at, lowest, (n - at) * sizeof(float));
    }
    return S::max_lane(top) < kInfinity;
  }

  // The sum of squares of x - rne(clamp(x/s))*s. Elements past the end are 0 and have no error.
  static double squared_error(const float* x, std::int64_t n, float s, float low, float high) {
    const F scale = S::set1(s), least = S::set1(low), most = S::set1(high);
    const auto error = [&](const float* p) {
      const F v = S::load(p);
      const I code = S::round(S::clamp(S::div(v, scale), least, most));
      return S::add(v, S::negate(S::mul(S::to_float(code), scale)));
    };
    return F32::tree_sum(
        x, static_cast<std::size_t>(n), [&](const float* p) { return S::square_quad_sums(error(p), error(p + S::kF)); },
        typename F32::InCache{});
  }

  // Plain code that the compiler vectorizes with the instruction set's flags.
  static bool wide_extremes(const void* x, std::int64_t count, std::int64_t len, double* up, double* down) {
    bool finite = true;
    for (std::int64_t i = 0; i < count; ++i) {
      double of[2];
      F64::max_signed(static_cast<const double*>(x) + i * len, len, of);
      up[i] = of[0];
      down[i] = of[1];
      finite = finite && of[0] < __builtin_huge_val() && of[1] < __builtin_huge_val();
    }
    return finite;
  }
  static bool wide_each(const void* from, std::int64_t n, double* up, double* down) {
    const auto* x = static_cast<const double*>(from);
    std::int64_t top = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      double v = 0;
      __builtin_memcpy(&v, x + i, sizeof v);  // may be unaligned
      top = F64::max(top, __builtin_bit_cast(std::int64_t, __builtin_fabs(v)));
      up[i] = v > up[i] ? v : up[i];
      down[i] = -v > down[i] ? -v : down[i];
    }
    return top < F64::kInfinity;
  }
  static double wide_squared_error(const double* x, std::int64_t n, double s, double low, double high) {
    return F64::tree_sum(x, n, [&](double v) {
      double t = v / s;
      t = t > low ? t : low;
      t = t < high ? t : high;
      const double d = v - ((t + 0x1.8p52) - 0x1.8p52) * s;  // adding 1.5 * 2^52 rounds to an integer, nearest even
      return d * d;
    });
  }

  static constexpr SimdTable table() {
    return {.extremes = {extremes<affine::kF32>, extremes<affine::kF16>, extremes<affine::kBf16>},
            .each = {each<affine::kF32>, each<affine::kF16>, each<affine::kBf16>},
            .squared_error = squared_error,
            .wide_extremes = wide_extremes,
            .wide_each = wide_each,
            .wide_squared_error = wide_squared_error};
  }
};

}  // namespace
}  // namespace tern::choose_qparams
