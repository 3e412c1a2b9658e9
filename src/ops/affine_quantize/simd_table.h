// What an instruction set gives to affine_quantize: loops over contiguous elements that share scales or have their own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/affine/float_type.h"

namespace tern::affine_quantize {

enum Store : int { kS8, kU8, kNibbles, kQuads, kStores };  // two or four codes a byte are cut from either sign

struct Rule {
  std::int32_t q_min = 0;
  std::int32_t q_max = 0;
  bool reciprocal = false;  // x * (1/s) instead of x/s
};

// Each returns whether every x was finite; codes of others are any. Zero points may be null: all 0.
struct SimdTable {
  // `count` equal ranges one after the other. `out` advances by the bytes of a range, whose length is a multiple of
  // the codes in a byte unless count is 1; bits behind the last code are 0.
  bool (*ranges[affine::kFloatTypes][kStores])(const void* x, std::int64_t count, std::int64_t len, const float* scales,
                                               const std::int32_t* zero_points, const Rule& rule, void* out);
  // A scale for each element; bytes only.
  bool (*each[affine::kFloatTypes][kNibbles])(const void* x, std::int64_t n, const float* scales,
                                              const std::int32_t* zero_points, const Rule& rule, void* out);
  // In f64, a scale for each element, or one for all (`step` 0); bytes, of either sign.
  bool (*wide)(const double* x, std::int64_t n, const double* scales, const std::int32_t* zero_points,
               std::int64_t step, const Rule& rule, void* out);
  // Copies codes that need not stay in the cache; after the last of them, and before anyone else reads, the fence.
  void (*stream)(const void* from, std::int64_t bytes, void* to);
  void (*stream_fence)();
};

}  // namespace tern::affine_quantize
