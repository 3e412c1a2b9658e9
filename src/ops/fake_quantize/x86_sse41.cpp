// fake_quantize for SSE4.1.
#include "simd/x86_sse41.h"
#include "ops/fake_quantize/generic.h"

namespace tern::fake_quantize {

extern const SimdTable x86_sse41;
constinit const SimdTable x86_sse41 = Loops<simd::X86Sse41>::table();

}  // namespace tern::fake_quantize
