// What a matrix loses by becoming ternary: the sums behind SQNR and cosine, in one pass over its floats.
#pragma once

#include <cstdint>

#include "tern/types.h"

namespace tern {

struct ErrorSums {
  double xx = 0;  // of x^2
  double ee = 0;  // of (x - x')^2
  double xy = 0;  // of x x'

  void add(const ErrorSums& other) {
    xx += other.xx;
    ee += other.ee;
    xy += other.xy;
  }
};

// Of n finite elements whose trits are sign(x) where |x| > threshold, else 0, with one scale. Squares are f32 and are
// added in f32 sixteen at a time, the rest in f64: the sums are right to 6 digits. Where a square is beyond f32, a sum
// is infinite; the caller then measures in f64 (measure_quality).
ErrorSums error_sums(const void* x, DType dtype, std::int64_t n, double threshold, float scale);

}  // namespace tern
