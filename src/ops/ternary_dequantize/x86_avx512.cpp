// ternary_dequantize for AVX-512 (F, BW, VL, DQ).
#include "simd/x86_avx512.h"
#include "ops/ternary_dequantize/generic.h"

namespace tern::ternary_dequantize {

extern const SimdTable x86_avx512;
constinit const SimdTable x86_avx512 = Loops<simd::X86Avx512>::table();

}  // namespace tern::ternary_dequantize
