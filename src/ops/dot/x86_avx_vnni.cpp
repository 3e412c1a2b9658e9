// Inner products for AVX2 with VNNI.
#include "simd/x86_avx_vnni.h"
#include "ops/dot/generic.h"

namespace tern::dot {

extern const SimdTable x86_avx_vnni;
constinit const SimdTable x86_avx_vnni = Loops<simd::X86AvxVnni>::table();

}  // namespace tern::dot
