// Inner products for any processor.
#include "ops/dot/generic.h"
#include "simd/emulated.h"

namespace tern::dot {

extern const SimdTable scalar;
constinit const SimdTable scalar = Loops<simd::Emulated<16>>::table();

}  // namespace tern::dot
