// choose_qparams for SSE4.1.
#include "simd/x86_sse41.h"
#include "ops/choose_qparams/generic.h"

namespace tern::choose_qparams {

extern const SimdTable x86_sse41;
constinit const SimdTable x86_sse41 = Loops<simd::X86Sse41>::table();

}  // namespace tern::choose_qparams
