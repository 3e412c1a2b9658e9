// The float modes of linear for one generation of GPUs.
#include "ops/linear/cuda_choice.h"
#include "ops/linear/cuda_float.h"

namespace tern::linear {

constinit const FloatModes float_sm75 = {[](const Linear::Problem& p) { return float_workspace_bytes(p); },
                                         [](const Params& p) { return float_serves<75>(p); },
                                         [](const Params& p, std::byte* workspace, const cuda::Launch& launch) {
                                           return float_launch<Trits, 75>(p, workspace, launch);
                                         }};

}  // namespace tern::linear
