// The sums behind quality figures: four sums over up to 1,024 pairs of a value x and its dequantized y, in the
// contract's order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/pairwise_fold.h"

namespace tern::ternary_quantize {
namespace {

inline constexpr std::size_t kPairTerms = 4;                       // x*x, (x - y)*(x - y), x*y, y*y
inline constexpr std::size_t kPairLaneStep = 4 * simd::kSumLanes;  // elements that fill every lane once

inline void fold_pair_lanes(double (&lane)[kPairTerms][simd::kSumLanes], double* of) {
  for (std::size_t t = 0; t < kPairTerms; ++t) {
    for (std::size_t half = simd::kSumLanes / 2; half > 0; half /= 2)
      for (std::size_t l = 0; l < half; ++l) lane[t][l] += lane[t][l + half];
    of[t] = lane[t][0];
  }
}

// For f32, and types widened to it, with any set of vector operations.
template <class S>
struct PairLoops {
  using F = typename S::F;
  using D = typename S::D;
  using I = typename S::I;

  static constexpr std::size_t kPart = 4 * S::kD;               // elements of one vector of quad sums
  static constexpr std::size_t kParts = kPairLaneStep / kPart;  // vectors that hold the 32 lanes

  // kAheadBytes is the prefetch distance if x is read from memory, else 0.
  template <std::size_t kAheadBytes>
  static void block(const float* x, const float* y, std::size_t n, double* of, std::int64_t* zeros) {
    D sums[kParts][kPairTerms];
    for (auto& part : sums)
      for (D& sum : part) sum = S::zero_d();
    const F zero = S::zero_f();
    I count = S::zero_i();
    const auto step = [&](const float* p, const float* q) __attribute__((always_inline)) {
      if constexpr (kAheadBytes > 0)
        for (std::size_t line = 0; line < kPairLaneStep; line += 16)
          S::prefetch_l1(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(p + line) + kAheadBytes));
      for (std::size_t i = 0; i < kParts; ++i) {
        const F a[2] = {S::load(p + i * kPart), S::load(p + i * kPart + S::kF)};
        const F b[2] = {S::load(q + i * kPart), S::load(q + i * kPart + S::kF)};
        S::add_pair_quads(a, b, sums[i]);
        count = S::add(count, S::add(S::within(b[0], zero, zero), S::within(b[1], zero, zero)));
      }
    };
    const std::size_t full = n / kPairLaneStep * kPairLaneStep;
    for (std::size_t at = 0; at < full; at += kPairLaneStep) step(x + at, y + at);
    std::size_t padding = 0;
    if (full < n) {  // missing elements are +0
      float rest_x[kPairLaneStep] = {}, rest_y[kPairLaneStep] = {};
      __builtin_memcpy(rest_x, x + full, (n - full) * sizeof(float));
      __builtin_memcpy(rest_y, y + full, (n - full) * sizeof(float));
      step(rest_x, rest_y);
      padding = full + kPairLaneStep - n;
    }
    *zeros += S::sum_lanes(count) - static_cast<std::int64_t>(padding);
    double lane[kPairTerms][simd::kSumLanes];
    for (std::size_t t = 0; t < kPairTerms; ++t)
      for (std::size_t i = 0; i < kParts; ++i) S::store(lane[t] + i * S::kD, sums[i][t]);
    fold_pair_lanes(lane, of);
  }
};

// For f64, in plain code that the compiler vectorizes.
inline void pair_sums_f64(const void* x, const void* y, std::int64_t elems, double* of, std::int64_t* zeros) {
  const auto n = static_cast<std::size_t>(elems);
  double lane[kPairTerms][simd::kSumLanes] = {};
  for (std::size_t at = 0; at < n; at += kPairLaneStep) {
    const std::size_t part = n - at < kPairLaneStep ? n - at : kPairLaneStep;
    double a[kPairLaneStep] = {}, b[kPairLaneStep] = {}, term[kPairTerms][kPairLaneStep];
    __builtin_memcpy(a, static_cast<const double*>(x) + at, part * sizeof(double));
    __builtin_memcpy(b, static_cast<const double*>(y) + at, part * sizeof(double));
    for (std::size_t i = 0; i < part; ++i) *zeros += b[i] == 0 ? 1 : 0;
    for (std::size_t i = 0; i < kPairLaneStep; ++i) {
      const double error = a[i] - b[i];
      term[0][i] = a[i] * a[i];
      term[1][i] = error * error;
      term[2][i] = a[i] * b[i];
      term[3][i] = b[i] * b[i];
    }
    for (std::size_t t = 0; t < kPairTerms; ++t)
      for (std::size_t l = 0; l < simd::kSumLanes; ++l)
        lane[t][l] += (term[t][4 * l] + term[t][4 * l + 1]) + (term[t][4 * l + 2] + term[t][4 * l + 3]);
  }
  fold_pair_lanes(lane, of);
}

}  // namespace
}  // namespace tern::ternary_quantize
