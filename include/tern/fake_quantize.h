// Training with affine quantization: codes and back in one pass.
#pragma once

#include "tern/affine.h"
#include "tern/export.h"
#include "tern/plan.h"
#include "tern/tensor.h"
#include "tern/types.h"

namespace tern {

// y = float(clamp(rne(x/s) + zp, q_min, q_max) - zp) * s: the bits of AffineQuantize and AffineDequantize behind each
// other. The mask, where it is asked for, is 1 where a gradient passes: q_min <= rne(x/s) + zp <= q_max.
struct TERN_API FakeQuantize {
  struct Problem {
    Shape shape;
    AffineGranularity granularity;
    DType dtype = DType::f32;        // of x and y
    Format format = Format::s8;      // whose codes: s8, u8, s4, u4, s2 or u2
    DType scale_dtype = DType::f32;  // f32, or that of x
    bool zero_points = false;        // given; else they are 0
    int q_min = 0, q_max = 0;        // both 0: all that the format holds
    AffineMath math = AffineMath::division;
    NonFinite non_finite = NonFinite::reject;
    bool even_groups = false;  // refuse a last group that is short
    bool mask = false;         // write it
    bool strict = false;       // a mask without its ends: q_min < rne(x/s) + zp < q_max
  };
  struct Args {
    ConstTensorView x;            // of the problem's shape, any strides
    ConstTensorView scales;       // dense, finite and above 0
    ConstTensorView zero_points;  // i32, dense, one for each scale, in [q_min, q_max]
    TensorView y;                 // of the problem's shape, any strides that do not overlap
    TensorView mask;              // u8, of the problem's shape; rows may be strided
  };
};

extern template class Plan<FakeQuantize>;
using FakeQuantizePlan = Plan<FakeQuantize>;

}  // namespace tern
