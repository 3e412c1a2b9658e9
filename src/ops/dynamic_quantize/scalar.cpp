// dynamic_quantize for any processor.
#include "ops/dynamic_quantize/simd_table.h"

namespace tern {

namespace choose_qparams {
extern const SimdTable scalar;
}
namespace affine_quantize {
extern const SimdTable scalar;
}
namespace dynamic_quantize {
extern const SimdTable scalar;
constinit const SimdTable scalar = {&choose_qparams::scalar, &affine_quantize::scalar};
}  // namespace dynamic_quantize

}  // namespace tern
