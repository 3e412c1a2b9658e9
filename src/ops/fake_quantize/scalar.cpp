// fake_quantize for any processor.
#include "ops/fake_quantize/generic.h"
#include "simd/emulated.h"

namespace tern::fake_quantize {

extern const SimdTable scalar;
constinit const SimdTable scalar = Loops<simd::Emulated<16>>::table();

}  // namespace tern::fake_quantize
