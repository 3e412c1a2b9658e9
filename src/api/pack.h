// Packing weights from any source for any device.
#pragma once

#include <optional>

#include "api/packed_place.h"
#include "ops/linear/row_pieces.h"

namespace tern {

// Where the weights lie. Scales of the host are checked before, or by the reader that makes them.
struct WeightSource {
  CanonicalWeights weights;
  std::optional<RowReader> reader = {};  // of rows that are to be read; weights.codes is null then
  DeviceId codes_on = {};                // the host, or the context's GPU
  DeviceId scales_on = {};
};

// Fills the place, which lies on the context's device, and waits until all is there. The codes go there in pieces: no
// second copy of them is made.
Result<PackedWeights> pack(const Context& context, const WeightSource& source, PackedPlace place);

}  // namespace tern
