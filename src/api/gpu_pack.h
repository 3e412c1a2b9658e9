// Packing weights on a GPU.
#pragma once

#include "api/pack.h"

namespace tern {

// Codes of the host go to the GPU in pieces and are tiled there. `memory` is the GPU's. Waits until all is there.
Result<PackedWeights::State> pack_on_gpu(const Context& context, const WeightSource& source,
                                         std::span<std::byte> memory);

}  // namespace tern
