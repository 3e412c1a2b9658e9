// The loops that each instruction set provides for choose_qparams: extremes of ranges, and the squared error of a
// range.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/affine/float_type.h"

namespace tern::choose_qparams {

// Extremes are the largest x and the largest -x, each at least +0. If an x is not finite they are unspecified, and the
// loop returns false.
struct SimdTable {
  // The extremes of `count` consecutive ranges of `len` elements.
  bool (*extremes[affine::kFloatTypes])(const void* x, std::int64_t count, std::int64_t len, float* up, float* down);
  // Element i belongs to range i: updates up[i] and down[i].
  bool (*each[affine::kFloatTypes])(const void* x, std::int64_t n, float* up, float* down);
  // The squared error of quantizing by s, with codes less zero point clamped to [low, high]; summed in the contract's
  // order.
  double (*squared_error)(const float* x, std::int64_t n, float s, float low, float high);

  bool (*wide_extremes)(const void* x, std::int64_t count, std::int64_t len, double* up, double* down);
  bool (*wide_each)(const void* x, std::int64_t n, double* up, double* down);
  double (*wide_squared_error)(const double* x, std::int64_t n, double s, double low, double high);
};

}  // namespace tern::choose_qparams
