// fake_quantize_backward for AVX-512 (F, BW, VL, DQ).
#include "simd/x86_avx512.h"
#include "ops/fake_quantize_backward/generic.h"

namespace tern::fake_quantize_backward {

extern const SimdTable x86_avx512;
constinit const SimdTable x86_avx512 = Loops<simd::X86Avx512>::table();

}  // namespace tern::fake_quantize_backward
