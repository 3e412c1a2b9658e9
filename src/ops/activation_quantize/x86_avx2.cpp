// activation_quantize for AVX2.
#include "simd/x86_avx2.h"
#include "ops/activation_quantize/generic.h"

namespace tern::activation_quantize {

extern const SimdTable x86_avx2;
constinit const SimdTable x86_avx2 = Loops<simd::X86Avx2>::table();

}  // namespace tern::activation_quantize
