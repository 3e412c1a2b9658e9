// linear for AVX-512 with VNNI.
#include "simd/x86_avx512vnni.h"
#include "ops/linear/generic.h"

namespace tern::linear {

extern const SimdTable x86_avx512vnni;
constinit const SimdTable x86_avx512vnni = Loops<simd::X86Avx512Vnni>::table();

}  // namespace tern::linear
