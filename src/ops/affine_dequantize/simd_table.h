// The loops that each instruction set provides for affine_dequantize: contiguous codes with shared scales or one each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/affine/float_type.h"

namespace tern::affine_dequantize {

enum Load : int { kS8, kU8, kLoads };  // one code per byte

struct SimdTable {
  // Unpacks n codes of 4 or 2 bits to one byte each, sign-extended if `is_signed`; n is a multiple of the codes per
  // byte.
  void (*unpack)(const std::uint8_t* codes, std::int64_t n, int bits, bool is_signed, std::uint8_t* bytes);
  // y = float(code - zp) * s over `count` consecutive ranges of `len` elements. Null zero points are all 0.
  void (*ranges[affine::kFloatTypes][kLoads])(const void* codes, std::int64_t count, std::int64_t len,
                                              const float* scales, const std::int32_t* zero_points, void* y);
  // One scale for each element.
  void (*each[affine::kFloatTypes][kLoads])(const void* codes, std::int64_t n, const float* scales,
                                            const std::int32_t* zero_points, void* y);
  // In f64, with one scale for each element (`step` 1) or one for all (`step` 0).
  void (*wide[kLoads])(const void* codes, std::int64_t n, const double* scales, const std::int32_t* zero_points,
                       std::int64_t step, double* y);
  // Copies values with streaming stores. Call stream_fence() after the last copy, before another thread reads them.
  void (*stream)(const void* from, std::int64_t bytes, void* to);
  void (*stream_fence)();
};

}  // namespace tern::affine_dequantize
