// The loops that each instruction set provides for fake_quantize: contiguous elements with shared scales or one each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/affine/float_type.h"
#include "ops/fake_quantize/rule.h"

namespace tern::fake_quantize {

// Each loop returns whether every x was finite; the results of a non-finite x are unspecified. Null zero points are all
// 0. A null mask is not written.
struct SimdTable {
  // `count` consecutive ranges of `len` elements.
  bool (*ranges[affine::kFloatTypes])(const void* x, std::int64_t count, std::int64_t len, const float* scales,
                                      const std::int32_t* zero_points, const Rule& rule, void* y, std::uint8_t* mask);
  // One scale for each element.
  bool (*each[affine::kFloatTypes])(const void* x, std::int64_t n, const float* scales, const std::int32_t* zero_points,
                                    const Rule& rule, void* y, std::uint8_t* mask);
  // In f64, with one scale for each element (`step` 1) or one for all (`step` 0). `y` may be x.
  bool (*wide)(const double* x, std::int64_t n, const double* scales, const std::int32_t* zero_points,
               std::int64_t step, const Rule& rule, double* y, std::uint8_t* mask);
  // Copies results with streaming stores. Call stream_fence() after the last copy, before another thread reads them.
  void (*stream)(const void* from, std::int64_t bytes, void* to);
  void (*stream_fence)();
};

}  // namespace tern::fake_quantize
