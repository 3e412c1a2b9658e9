// linear for SSE4.1.
#include "simd/x86_sse41.h"
#include "ops/linear/generic.h"

namespace tern::linear {

extern const SimdTable x86_sse41;
constinit const SimdTable x86_sse41 = Loops<simd::X86Sse41>::table();

}  // namespace tern::linear
