// affine_dequantize for NEON.
#include "simd/arm_neon.h"
#include "ops/affine_dequantize/generic.h"

namespace tern::affine_dequantize {

extern const SimdTable arm_neon;
constinit const SimdTable arm_neon = Loops<simd::ArmNeon>::table();

}  // namespace tern::affine_dequantize
