// Quantizing a tensor of the host on a GPU, piece by piece.
#pragma once

#include "tern/quantize.h"

namespace tern {

// Fills codes and scales of q, which lie on the host. At most options.device_bytes of the GPU are taken.
Status quantize_in_pieces(const Context& context, const TernaryQuantize::Problem& problem, const ConstTensorView& x,
                          const QuantizeOptions& options, const QuantizedTensor& q);

}  // namespace tern
