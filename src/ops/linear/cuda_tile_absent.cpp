// Builds without CUDA have no GPU to tile weights on.
#include "ops/linear/cuda_tile.h"

namespace tern::linear {

constinit const CudaTiling cuda_tile = {[](const TileJob&, const cuda::Launch&) { return 1; }};

}  // namespace tern::linear
