// choose_qparams for NEON.
#include "simd/arm_neon.h"
#include "ops/choose_qparams/generic.h"

namespace tern::choose_qparams {

extern const SimdTable arm_neon;
constinit const SimdTable arm_neon = Loops<simd::ArmNeon>::table();

}  // namespace tern::choose_qparams
