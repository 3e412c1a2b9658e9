// What an instruction set gives to fake_quantize: loops over contiguous elements that share scales or have their own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/affine/float_type.h"
#include "ops/fake_quantize/rule.h"

namespace tern::fake_quantize {

// Each returns whether every x was finite; results of others are any. Zero points may be null: all 0; the mask may be
// null: not asked for.
struct SimdTable {
  // `count` equal ranges one after the other.
  bool (*ranges[affine::kFloatTypes])(const void* x, std::int64_t count, std::int64_t len, const float* scales,
                                      const std::int32_t* zero_points, const Rule& rule, void* y, std::uint8_t* mask);
  // A scale for each element.
  bool (*each[affine::kFloatTypes])(const void* x, std::int64_t n, const float* scales, const std::int32_t* zero_points,
                                    const Rule& rule, void* y, std::uint8_t* mask);
  // In f64, a scale for each element, or one for all (`step` 0).
  bool (*wide)(const double* x, std::int64_t n, const double* scales, const std::int32_t* zero_points,
               std::int64_t step, const Rule& rule, double* y, std::uint8_t* mask);
  // Copies results that need not stay in the cache; after the last of them, and before anyone else reads, the fence.
  void (*stream)(const void* from, std::int64_t bytes, void* to);
  void (*stream_fence)();
};

}  // namespace tern::fake_quantize
