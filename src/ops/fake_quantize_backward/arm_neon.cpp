// fake_quantize_backward for NEON.
#include "simd/arm_neon.h"
#include "ops/fake_quantize_backward/generic.h"

namespace tern::fake_quantize_backward {

extern const SimdTable arm_neon;
constinit const SimdTable arm_neon = Loops<simd::ArmNeon>::table();

}  // namespace tern::fake_quantize_backward
