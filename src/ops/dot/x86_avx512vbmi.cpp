// Inner products for AVX-512 with VNNI and VBMI.
#include "simd/x86_avx512vbmi.h"
#include "ops/dot/generic.h"

namespace tern::dot {

extern const SimdTable x86_avx512vbmi;
constinit const SimdTable x86_avx512vbmi = Loops<simd::X86Avx512Vbmi>::table();

}  // namespace tern::dot
