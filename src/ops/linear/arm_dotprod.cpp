// linear for NEON with dot products.
#include "simd/arm_dotprod.h"
#include "ops/linear/generic.h"

namespace tern::linear {

extern const SimdTable arm_dotprod;
constinit const SimdTable arm_dotprod = Loops<simd::ArmDotprod>::table();

}  // namespace tern::linear
