// The loops that each instruction set provides for fake_quantize_backward, over contiguous elements: masks, the factors
// of grad_y in the gradient of a scale (steps), and gradients passed through a mask.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/affine/float_type.h"
#include "ops/fake_quantize/rule.h"

namespace tern::fake_quantize_backward {

using fake_quantize::Rule;

// The first three return whether every x was finite; the results of a non-finite x are unspecified. Null zero points
// are all 0. steps[i] is rne(x/s) - x/s where the mask is 1, else q - zp.
struct SimdTable {
  // One scale for all.
  bool (*one[affine::kFloatTypes])(const void* x, std::int64_t n, float scale, std::int32_t zero_point,
                                   const Rule& rule, float* steps, std::uint8_t* mask);
  // One scale for each element.
  bool (*each[affine::kFloatTypes])(const void* x, std::int64_t n, const float* scales, const std::int32_t* zero_points,
                                    const Rule& rule, float* steps, std::uint8_t* mask);
  // In f64, with one scale for each element (`step` 1) or one for all (`step` 0). `steps` may be x.
  bool (*wide)(const double* x, std::int64_t n, const double* scales, const std::int32_t* zero_points,
               std::int64_t step, const Rule& rule, double* steps, std::uint8_t* mask);
  // y[i] is x[i] where the mask is not 0, else 0 with the sign of x[i]; for elements of 2, 4 and 8 bytes.
  void (*pass[3])(const std::uint8_t* mask, const void* x, std::int64_t n, void* y);
  // Copies results with streaming stores. Call stream_fence() after the last copy, before another thread reads them.
  void (*stream)(const void* from, std::int64_t bytes, void* to);
  void (*stream_fence)();
};

}  // namespace tern::fake_quantize_backward
