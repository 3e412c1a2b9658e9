// The float modes of linear for sm_90a.
#include "ops/linear/cuda_choice.h"
#include "ops/linear/cuda_float.h"

namespace tern::linear {

constinit const FloatModes float_sm90a = {float_workspace_bytes, float_serves<90>, float_launch<Trits, 90>};

}  // namespace tern::linear
