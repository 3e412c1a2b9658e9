// fake_quantize_backward for SSE4.1.
#include "simd/x86_sse41.h"
#include "ops/fake_quantize_backward/generic.h"

namespace tern::fake_quantize_backward {

extern const SimdTable x86_sse41;
constinit const SimdTable x86_sse41 = Loops<simd::X86Sse41>::table();

}  // namespace tern::fake_quantize_backward
