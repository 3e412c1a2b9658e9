// What an instruction set gives to affine_dequantize: loops over contiguous bytes that share scales or have their own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/affine/float_type.h"

namespace tern::affine_dequantize {

enum Load : int { kS8, kU8, kLoads };  // one code a byte

struct SimdTable {
  // Codes of nibbles (bits 4) or quads (bits 2) as bytes of the same sign; n is a multiple of those in a byte.
  void (*unpack)(const std::uint8_t* codes, std::int64_t n, int bits, bool is_signed, std::uint8_t* bytes);
  // y = float(code - zp) * s over `count` equal ranges one after the other. Zero points may be null: all 0.
  void (*ranges[affine::kFloatTypes][kLoads])(const void* codes, std::int64_t count, std::int64_t len,
                                              const float* scales, const std::int32_t* zero_points, void* y);
  // A scale for each element.
  void (*each[affine::kFloatTypes][kLoads])(const void* codes, std::int64_t n, const float* scales,
                                            const std::int32_t* zero_points, void* y);
  // In f64, a scale for each element, or one for all (`step` 0).
  void (*wide[kLoads])(const void* codes, std::int64_t n, const double* scales, const std::int32_t* zero_points,
                       std::int64_t step, double* y);
  // Copies values that need not stay in the cache; after the last of them, and before anyone else reads, the fence.
  void (*stream)(const void* from, std::int64_t bytes, void* to);
  void (*stream_fence)();
};

}  // namespace tern::affine_dequantize
