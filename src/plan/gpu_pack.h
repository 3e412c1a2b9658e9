// Packing weights on a GPU.
#pragma once

#include "plan/pack.h"

namespace tern {

// Codes on the host go to the GPU in pieces and are tiled there. `memory` is on the GPU. Waits until it is filled.
Result<PackedWeights::State> pack_on_gpu(const Context& context, const WeightSource& source,
                                         std::span<std::byte> memory);

}  // namespace tern
