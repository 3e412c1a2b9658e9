// choose_qparams for any processor.
#include "ops/choose_qparams/generic.h"
#include "simd/emulated.h"

namespace tern::choose_qparams {

extern const SimdTable scalar;
constinit const SimdTable scalar = Loops<simd::Emulated<16>>::table();

}  // namespace tern::choose_qparams
