// Inner products for AVX-512 with VNNI.
#include "simd/x86_avx512vnni.h"
#include "ops/dot/generic.h"

namespace tern::dot {

extern const SimdTable x86_avx512vnni;
constinit const SimdTable x86_avx512vnni = Loops<simd::X86Avx512Vnni>::table();

}  // namespace tern::dot
