// What an instruction set gives to fake_quantize_backward: masks, what scales multiply gradients by, and gradients that
// pass a mask, over contiguous elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/affine/float_type.h"
#include "ops/fake_quantize/rule.h"

namespace tern::fake_quantize_backward {

using fake_quantize::Rule;

// The first three return whether every x was finite; results of others are any. Zero points may be null: all 0.
// steps[i] is rne(x/s) - x/s where the mask is 1, else q - zp.
struct SimdTable {
  // One scale for all.
  bool (*one[affine::kFloatTypes])(const void* x, std::int64_t n, float scale, std::int32_t zero_point,
                                   const Rule& rule, float* steps, std::uint8_t* mask);
  // A scale for each element.
  bool (*each[affine::kFloatTypes])(const void* x, std::int64_t n, const float* scales, const std::int32_t* zero_points,
                                    const Rule& rule, float* steps, std::uint8_t* mask);
  // In f64, a scale for each element, or one for all (`step` 0).
  bool (*wide)(const double* x, std::int64_t n, const double* scales, const std::int32_t* zero_points,
               std::int64_t step, const Rule& rule, double* steps, std::uint8_t* mask);
  // y[i] is x[i] where the mask is not 0, else 0 with its sign; of elements of 2, 4 and 8 bytes.
  void (*pass[3])(const std::uint8_t* mask, const void* x, std::int64_t n, void* y);
  // Copies results that need not stay in the cache; after the last of them, and before anyone else reads, the fence.
  void (*stream)(const void* from, std::int64_t bytes, void* to);
  void (*stream_fence)();
};

}  // namespace tern::fake_quantize_backward
