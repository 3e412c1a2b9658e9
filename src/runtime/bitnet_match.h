// Quantization as BitNet's own converter does it: in the type of the weights T, every step rounded to T,
//
//   m = max(mean |w|, 1e-5)    inv = 1 / m    q = clip(rne(w * inv), -1, 1)    stored scale = bf16(1 / inv)
//
// It differs from absmean only where |w| is within an ulp or so of half the scale. The mean is ours (the exact order of
// torch's sum is not fixed), rounded to T.
#pragma once

#include "tern/model.h"

namespace tern {

struct BitnetMatch {
  QuantizedTensor weights;
  double threshold = 0;  // q is 0 up to this |w|
};

// x is f32, f16 or bf16, [n, k], dense, on the host.
Result<BitnetMatch> quantize_like_bitnet(const Context& context, const ConstTensorView& x,
                                         const QuantizeOptions& options);

}  // namespace tern
