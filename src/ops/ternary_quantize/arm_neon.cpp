// ternary_quantize for NEON.
#include "simd/arm_neon.h"
#include "ops/ternary_quantize/generic.h"

namespace tern::ternary_quantize {

extern const SimdTable arm_neon;
constinit const SimdTable arm_neon = Loops<simd::ArmNeon>::table();

}  // namespace tern::ternary_quantize
