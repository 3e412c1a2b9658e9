// dynamic_quantize for SSE4.1.
#include "ops/dynamic_quantize/simd_table.h"

namespace tern {

namespace choose_qparams {
extern const SimdTable x86_sse41;
}
namespace affine_quantize {
extern const SimdTable x86_sse41;
}
namespace dynamic_quantize {
extern const SimdTable x86_sse41;
constinit const SimdTable x86_sse41 = {&choose_qparams::x86_sse41, &affine_quantize::x86_sse41};
}  // namespace dynamic_quantize

}  // namespace tern
