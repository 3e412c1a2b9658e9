// What an instruction set provides for activation_quantize: two passes over the contiguous elements of a token.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern::activation_quantize {

enum Source : int { kF32, kF16, kBf16, kSources };

struct SimdTable {
  // The bits of the largest |x| as f32; 0x7F800000 or above if some x is non-finite.
  std::uint32_t (*max_abs_bits[kSources])(const void* x, std::int64_t n);
  // q = clamp(rne(x * s), -128, 127); returns sum(q).
  std::int32_t (*quantize[kSources])(const void* x, std::int64_t n, float s, std::int8_t* q);
};

}  // namespace tern::activation_quantize
