// linear for any processor.
#include "ops/linear/generic.h"
#include "simd/emulated.h"

namespace tern::linear {

extern const SimdTable scalar;
constinit const SimdTable scalar = Loops<simd::Emulated<16>>::table();

}  // namespace tern::linear
