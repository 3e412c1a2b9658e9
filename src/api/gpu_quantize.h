// Quantizing a tensor of the host on a GPU, piece by piece.
#pragma once

#include "tern/quantize.h"

namespace tern {

// Fills codes and scales of q, which lie on the host. At most options.device_bytes of the GPU are taken.
Status quantize_in_pieces(const Context& context, const TernaryQuantize::Problem& problem, const ConstTensorView& x,
                          const QuantizeOptions& options, const QuantizedTensor& q);

// Bytes of the GPU that quantize() will take: of a tensor of the host at most device_bytes, for the pieces under way;
// of one that lies there, what is made of it.
std::size_t quantize_device_bytes(const TernaryQuantize::Problem& problem, bool x_on_host, std::size_t workspace_bytes,
                                  const QuantizeOptions& options);

}  // namespace tern
