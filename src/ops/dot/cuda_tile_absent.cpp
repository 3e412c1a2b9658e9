// Builds without CUDA have no GPU to tile weights on.
#include "ops/dot/cuda_tile.h"

namespace tern::dot {

constinit const CudaTiling cuda_tile = {[](const TileJob&, const cuda::Launch&) { return 1; }};

}  // namespace tern::dot
