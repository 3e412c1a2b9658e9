// affine_quantize for NEON.
#include "simd/arm_neon.h"
#include "ops/affine_quantize/generic.h"

namespace tern::affine_quantize {

extern const SimdTable arm_neon;
constinit const SimdTable arm_neon = Loops<simd::ArmNeon>::table();

}  // namespace tern::affine_quantize
