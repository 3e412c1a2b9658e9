// linear with weights of 8 and 4 bits for sm_80.
#include "ops/linear/cuda_wide.h"

namespace tern::linear {

constinit const Cuda wide_sm80 = {mma_wide_workspace<80>, launch_mma_wide<Sm80, 80>, report_mma_wide};

}  // namespace tern::linear
