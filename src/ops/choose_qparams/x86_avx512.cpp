// choose_qparams for AVX-512 (F, BW, VL, DQ).
#include "simd/x86_avx512.h"
#include "ops/choose_qparams/generic.h"

namespace tern::choose_qparams {

extern const SimdTable x86_avx512;
constinit const SimdTable x86_avx512 = Loops<simd::X86Avx512>::table();

}  // namespace tern::choose_qparams
