// linear with weights of 8 and 4 bits for sm_75.
#include "ops/linear/cuda_wide.h"

namespace tern::linear {

constinit const Cuda wide_sm75 = {mma_wide_workspace<75>, launch_mma_wide<Sm75, 75>, report_mma_wide};

}  // namespace tern::linear
