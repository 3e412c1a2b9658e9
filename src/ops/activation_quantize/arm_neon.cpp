// activation_quantize for NEON.
#include "simd/arm_neon.h"
#include "ops/activation_quantize/generic.h"

namespace tern::activation_quantize {

extern const SimdTable arm_neon;
constinit const SimdTable arm_neon = Loops<simd::ArmNeon>::table();

}  // namespace tern::activation_quantize
