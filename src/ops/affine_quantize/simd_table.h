// The loops that each instruction set provides for affine_quantize: contiguous elements with shared scales or one each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/affine/float_type.h"

namespace tern::affine_quantize {

// kNibbles and kQuads keep the low 4 or 2 bits of a code, signed or unsigned.
enum Store : int { kS8, kU8, kNibbles, kQuads, kStores };

struct Rule {
  std::int32_t q_min = 0;
  std::int32_t q_max = 0;
  bool reciprocal = false;  // x * (1/s) instead of x/s
};

// Each loop returns whether every x was finite; the code of a non-finite x is unspecified. Null zero points are all 0.
struct SimdTable {
  // `count` consecutive ranges of `len` elements. Unless count is 1, `len` is a multiple of the codes per byte. Unused
  // bits after the last code are 0.
  bool (*ranges[affine::kFloatTypes][kStores])(const void* x, std::int64_t count, std::int64_t len, const float* scales,
                                               const std::int32_t* zero_points, const Rule& rule, void* out);
  // One scale for each element; one code per byte.
  bool (*each[affine::kFloatTypes][kNibbles])(const void* x, std::int64_t n, const float* scales,
                                              const std::int32_t* zero_points, const Rule& rule, void* out);
  // In f64, with one scale for each element (`step` 1) or one for all (`step` 0); one code per byte, signed or
  // unsigned.
  bool (*wide)(const double* x, std::int64_t n, const double* scales, const std::int32_t* zero_points,
               std::int64_t step, const Rule& rule, void* out);
  // Copies codes with streaming stores. Call stream_fence() after the last copy, before another thread reads them.
  void (*stream)(const void* from, std::int64_t bytes, void* to);
  void (*stream_fence)();
};

}  // namespace tern::affine_quantize
