// Packing weights on a GPU.
#pragma once

#include "ops/linear/packed_weights.h"

namespace tern {

// Where the canonical weights lie: the host, or the context's GPU.
struct WeightPlaces {
  DeviceId codes;
  DeviceId scales;
};

// Codes of the host go to the GPU in pieces and are tiled there. `memory` is the GPU's. Waits until all is there.
Result<PackedWeights::State> pack_on_gpu(const Context& context, const CanonicalWeights& weights, WeightPlaces places,
                                         std::span<std::byte> memory);

}  // namespace tern
