// dynamic_quantize for AVX-512 (F, BW, VL, DQ).
#include "ops/dynamic_quantize/simd_table.h"

namespace tern {

namespace choose_qparams {
extern const SimdTable x86_avx512;
}
namespace affine_quantize {
extern const SimdTable x86_avx512;
}
namespace dynamic_quantize {
extern const SimdTable x86_avx512;
constinit const SimdTable x86_avx512 = {&choose_qparams::x86_avx512, &affine_quantize::x86_avx512};
}  // namespace dynamic_quantize

}  // namespace tern
