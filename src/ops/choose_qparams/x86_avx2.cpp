// choose_qparams for AVX2.
#include "simd/x86_avx2.h"
#include "ops/choose_qparams/generic.h"

namespace tern::choose_qparams {

extern const SimdTable x86_avx2;
constinit const SimdTable x86_avx2 = Loops<simd::X86Avx2>::table();

}  // namespace tern::choose_qparams
