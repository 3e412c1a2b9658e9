// ternary_quantize for any processor, from the emulated 16-byte words.
#include "ops/ternary_quantize/generic.h"
#include "simd/emulated.h"

namespace tern::ternary_quantize {

extern const SimdTable scalar;
constinit const SimdTable scalar = Loops<simd::Emulated<16>>::table();

}  // namespace tern::ternary_quantize
