// affine_dequantize for SSE4.1.
#include "simd/x86_sse41.h"
#include "ops/affine_dequantize/generic.h"

namespace tern::affine_dequantize {

extern const SimdTable x86_sse41;
constinit const SimdTable x86_sse41 = Loops<simd::X86Sse41>::table();

}  // namespace tern::affine_dequantize
