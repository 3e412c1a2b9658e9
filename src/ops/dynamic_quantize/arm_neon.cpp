// dynamic_quantize for NEON.
#include "ops/dynamic_quantize/simd_table.h"

namespace tern {

namespace choose_qparams {
extern const SimdTable arm_neon;
}
namespace affine_quantize {
extern const SimdTable arm_neon;
}
namespace dynamic_quantize {
extern const SimdTable arm_neon;
constinit const SimdTable arm_neon = {&choose_qparams::arm_neon, &affine_quantize::arm_neon};
}  // namespace dynamic_quantize

}  // namespace tern
