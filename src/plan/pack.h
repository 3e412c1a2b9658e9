// Packs weights from any source for any device.
#pragma once

#include <optional>

#include "ops/dot/row_pieces.h"
#include "plan/packed_place.h"

namespace tern {

// The weights and where they are. Scales on the host were checked before, or are checked by the reader that makes them.
struct WeightSource {
  CanonicalWeights weights;
  std::optional<RowReader> reader = {};  // makes the codes; weights.codes is null then
  DeviceId codes_on = {};                // the host, or the context's GPU
  DeviceId scales_on = {};
};

// Fills the place, which is on the context's device, and waits until it is filled. The codes go there in pieces, so
// that no second copy of them is made.
Result<PackedWeights> pack(const Context& context, const WeightSource& source, PackedPlace place);

}  // namespace tern
