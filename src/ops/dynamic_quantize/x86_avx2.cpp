// dynamic_quantize for AVX2.
#include "ops/dynamic_quantize/simd_table.h"

namespace tern {

namespace choose_qparams {
extern const SimdTable x86_avx2;
}
namespace affine_quantize {
extern const SimdTable x86_avx2;
}
namespace dynamic_quantize {
extern const SimdTable x86_avx2;
constinit const SimdTable x86_avx2 = {&choose_qparams::x86_avx2, &affine_quantize::x86_avx2};
}  // namespace dynamic_quantize

}  // namespace tern
