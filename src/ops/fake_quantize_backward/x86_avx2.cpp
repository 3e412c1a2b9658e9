// fake_quantize_backward for AVX2.
#include "simd/x86_avx2.h"
#include "ops/fake_quantize_backward/generic.h"

namespace tern::fake_quantize_backward {

extern const SimdTable x86_avx2;
constinit const SimdTable x86_avx2 = Loops<simd::X86Avx2>::table();

}  // namespace tern::fake_quantize_backward
