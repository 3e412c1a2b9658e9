// fake_quantize for NEON.
#include "simd/arm_neon.h"
#include "ops/fake_quantize/generic.h"

namespace tern::fake_quantize {

extern const SimdTable arm_neon;
constinit const SimdTable arm_neon = Loops<simd::ArmNeon>::table();

}  // namespace tern::fake_quantize
