// Quantizes a host tensor on a GPU, piece by piece.
#pragma once

#include "tern/quantize.h"

namespace tern {

// Fills codes and scales of q, which are on the host. Takes at most options.device_bytes of GPU memory.
Status quantize_in_pieces(const Context& context, const TernaryQuantize::Problem& problem, const ConstTensorView& x,
                          const QuantizeOptions& options, const QuantizedTensor& q);

// GPU memory that quantize() will take. For a host tensor: at most device_bytes, for the pieces in flight. For a GPU
// tensor: its results, the given scales and the workspace.
std::size_t quantize_device_bytes(const TernaryQuantize::Problem& problem, bool x_on_host, std::size_t workspace_bytes,
                                  const QuantizeOptions& options);

}  // namespace tern
