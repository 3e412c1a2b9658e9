// activation_quantize for AVX-512.
#include "simd/x86_avx512.h"
#include "ops/activation_quantize/generic.h"

namespace tern::activation_quantize {

extern const SimdTable x86_avx512;
constinit const SimdTable x86_avx512 = Loops<simd::X86Avx512>::table();

}  // namespace tern::activation_quantize
