// Inner products for NEON with dot products.
#include "simd/arm_dotprod.h"
#include "ops/dot/generic.h"

namespace tern::dot {

extern const SimdTable arm_dotprod;
constinit const SimdTable arm_dotprod = Loops<simd::ArmDotprod>::table();

}  // namespace tern::dot
