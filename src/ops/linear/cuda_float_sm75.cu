// The float modes of linear for sm_75.
#include "ops/linear/cuda_choice.h"
#include "ops/linear/cuda_float.h"

namespace tern::linear {

constinit const FloatModes float_sm75 = {float_workspace_bytes, float_serves<75>, float_launch<Trits, 75>};

}  // namespace tern::linear
