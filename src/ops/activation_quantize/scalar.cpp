// activation_quantize for any processor.
#include "ops/activation_quantize/generic.h"
#include "simd/emulated.h"

namespace tern::activation_quantize {

extern const SimdTable scalar;
constinit const SimdTable scalar = Loops<simd::Emulated<16>>::table();

}  // namespace tern::activation_quantize
