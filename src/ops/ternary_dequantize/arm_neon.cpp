// ternary_dequantize for NEON.
#include "simd/arm_neon.h"
#include "ops/ternary_dequantize/generic.h"

namespace tern::ternary_dequantize {

extern const SimdTable arm_neon;
constinit const SimdTable arm_neon = Loops<simd::ArmNeon>::table();

}  // namespace tern::ternary_dequantize
