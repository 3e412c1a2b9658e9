// linear for AVX2.
#include "simd/x86_avx2.h"
#include "ops/linear/generic.h"

namespace tern::linear {

extern const SimdTable x86_avx2;
constinit const SimdTable x86_avx2 = Loops<simd::X86Avx2>::table();

}  // namespace tern::linear
