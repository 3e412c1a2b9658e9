// What an instruction set gives to choose_qparams: extremes of ranges, and the squared error of a range.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/affine/float_type.h"

namespace tern::choose_qparams {

// Extremes are the largest x and the largest -x, each at least +0. Where x is not finite they are any value, and the
// answer is false.
struct SimdTable {
  // Those of `count` equal ranges one after the other.
  bool (*extremes[affine::kFloatTypes])(const void* x, std::int64_t count, std::int64_t len, float* up, float* down);
  // Every element has a range of its own, whose extremes are renewed.
  bool (*each[affine::kFloatTypes])(const void* x, std::int64_t n, float* up, float* down);
  // Of codes by s, clamped to [low, high] without their zero point; in the contract's order.
  double (*squared_error)(const float* x, std::int64_t n, float s, float low, float high);

  bool (*wide_extremes)(const void* x, std::int64_t count, std::int64_t len, double* up, double* down);
  bool (*wide_each)(const void* x, std::int64_t n, double* up, double* down);
  double (*wide_squared_error)(const double* x, std::int64_t n, double s, double low, double high);
};

}  // namespace tern::choose_qparams
