// affine_dequantize for any processor.
#include "ops/affine_dequantize/generic.h"
#include "simd/emulated.h"

namespace tern::affine_dequantize {

extern const SimdTable scalar;
constinit const SimdTable scalar = Loops<simd::Emulated<16>>::table();

}  // namespace tern::affine_dequantize
