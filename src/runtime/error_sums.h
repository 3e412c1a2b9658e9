// What a matrix loses by becoming ternary: the sums behind SQNR and cosine, in one pass over its floats.
#pragma once

#include <cstdint>

#include "tern/types.h"

namespace tern {

struct ErrorSums {
  double xx = 0;     // of x^2
  double above = 0;  // of |x| where the trit is not 0

  void add(const ErrorSums& other) {
    xx += other.xx;
    above += other.above;
  }
};

// Of n finite elements whose trits are sign(x) where |x| > threshold, else 0. Squares are f32, and are added in f32
// sixteen at a time and then in f64: right to 6 digits where they are inside f32. Where they are not, xx is infinite,
// or the threshold is below kSmallest.
ErrorSums error_sums(const void* x, DType dtype, std::int64_t n, double threshold);
inline constexpr double kSmallestThreshold = 1e-15;

}  // namespace tern
