// affine_quantize for any processor.
#include "ops/affine_quantize/generic.h"
#include "simd/emulated.h"

namespace tern::affine_quantize {

extern const SimdTable scalar;
constinit const SimdTable scalar = Loops<simd::Emulated<16>>::table();

}  // namespace tern::affine_quantize
