// Inner products for NEON.
#include "simd/arm_neon.h"
#include "ops/dot/generic.h"

namespace tern::dot {

extern const SimdTable arm_neon;
constinit const SimdTable arm_neon = Loops<simd::ArmNeon>::table();

}  // namespace tern::dot
