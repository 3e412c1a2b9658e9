// Inner products for AVX2.
#include "simd/x86_avx2.h"
#include "ops/dot/generic.h"

namespace tern::dot {

extern const SimdTable x86_avx2;
constinit const SimdTable x86_avx2 = Loops<simd::X86Avx2>::table();

}  // namespace tern::dot
