// fake_quantize_backward for any processor.
#include "ops/fake_quantize_backward/generic.h"
#include "simd/emulated.h"

namespace tern::fake_quantize_backward {

extern const SimdTable scalar;
constinit const SimdTable scalar = Loops<simd::Emulated<16>>::table();

}  // namespace tern::fake_quantize_backward
