// affine_dequantize for AVX-512 (F, BW, VL, DQ).
#include "simd/x86_avx512.h"
#include "ops/affine_dequantize/generic.h"

namespace tern::affine_dequantize {

extern const SimdTable x86_avx512;
constinit const SimdTable x86_avx512 = Loops<simd::X86Avx512>::table();

}  // namespace tern::affine_dequantize
