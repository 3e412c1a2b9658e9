// linear for NEON.
#include "simd/arm_neon.h"
#include "ops/linear/generic.h"

namespace tern::linear {

extern const SimdTable arm_neon;
constinit const SimdTable arm_neon = Loops<simd::ArmNeon>::table();

}  // namespace tern::linear
