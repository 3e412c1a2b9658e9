// The float modes of linear for sm_80.
#include "ops/linear/cuda_choice.h"
#include "ops/linear/cuda_float.h"

namespace tern::linear {

constinit const FloatModes float_sm80 = {float_workspace_bytes, float_serves<80>, float_launch<Trits, 80>};

}  // namespace tern::linear
