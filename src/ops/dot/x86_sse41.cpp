// Inner products for SSE4.1.
#include "simd/x86_sse41.h"
#include "ops/dot/generic.h"

namespace tern::dot {

extern const SimdTable x86_sse41;
constinit const SimdTable x86_sse41 = Loops<simd::X86Sse41>::table();

}  // namespace tern::dot
