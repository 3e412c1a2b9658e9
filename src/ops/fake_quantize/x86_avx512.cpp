// fake_quantize for AVX-512 (F, BW, VL, DQ).
#include "simd/x86_avx512.h"
#include "ops/fake_quantize/generic.h"

namespace tern::fake_quantize {

extern const SimdTable x86_avx512;
constinit const SimdTable x86_avx512 = Loops<simd::X86Avx512>::table();

}  // namespace tern::fake_quantize
