// Training with affine quantization: codes and back in one pass, and the straight-through gradients of it.
#pragma once

#include <optional>

#include "tern/affine.h"
#include "tern/export.h"
#include "tern/plan.h"
#include "tern/tensor.h"
#include "tern/types.h"

namespace tern {

// y = float(clamp(rne(x/s) + zp, q_min, q_max) - zp) * s: the same bits as AffineQuantize followed by AffineDequantize.
// The mask, if requested, is 1 where a gradient passes: q_min <= rne(x/s) + zp <= q_max.
struct TERN_API FakeQuantize {
  struct Problem {
    Shape shape;
    AffineGranularity granularity;
    DType dtype = DType::f32;         // of x and y
    Format format = Format::s8;       // whose codes: s8, u8, s4, u4, s2 or u2
    DType scale_dtype = DType::f32;   // f32, or that of x
    bool zero_points = false;         // given; else they are 0
    std::optional<int> q_min, q_max;  // each not given: as far as the format holds
    AffineMath math = AffineMath::division;
    NonFinite non_finite = NonFinite::reject;
    bool even_groups = false;  // refuse a last group that is shorter than the others
    bool mask = false;         // write it
    bool strict = false;       // a mask that excludes the ends of the range: q_min < rne(x/s) + zp < q_max
  };
  struct Args {
    ConstTensorView x;            // of the problem's shape, any strides
    ConstTensorView scales;       // dense, finite and above 0
    ConstTensorView zero_points;  // i32, dense, one for each scale, in [q_min, q_max]
    TensorView y;                 // of the problem's shape, any strides that do not overlap
    TensorView mask;              // u8, of the problem's shape; rows may be strided
  };
};

// grad_x = grad_y where the mask is 1, else 0 with the sign of grad_y; and, with qparam_gradients, of each scale and
// zero point, as learned step sizes need them (docs/numerics.md):
//   grad_scale      = grad_factor * sum(grad_y * (mask ? rne(x/s) - x/s : q - zp))
//   grad_zero_point = -grad_factor * s * sum(mask ? 0 : grad_y)
struct TERN_API FakeQuantizeBackward {
  struct Problem {
    Shape shape;
    AffineGranularity granularity;
    DType dtype = DType::f32;  // of x, grad_y and grad_x
    Format format = Format::s8;
    DType scale_dtype = DType::f32;  // of scales and their gradients
    bool zero_points = false;
    std::optional<int> q_min, q_max;
    AffineMath math = AffineMath::division;
    NonFinite non_finite = NonFinite::reject;  // of x; gradients may be anything
    bool even_groups = false;
    bool strict = false;
    bool from_mask = false;         // the mask is an input; x and scales are not read
    bool qparam_gradients = false;  // also compute those of scales and zero points; not possible with from_mask
    double grad_factor = 1;         // the factor in those two
  };
  struct Args {
    ConstTensorView grad_y;  // of the problem's shape, any strides
    ConstTensorView x;
    ConstTensorView scales;
    ConstTensorView zero_points;
    ConstTensorView mask;         // u8, 0 or 1, as FakeQuantize writes it
    TensorView grad_x;            // any strides that do not overlap
    TensorView grad_scales;       // dense, one for each scale, of their type
    TensorView grad_zero_points;  // likewise, also where zero points are not given
  };
};

extern template class Plan<FakeQuantize>;
extern template class Plan<FakeQuantizeBackward>;
using FakeQuantizePlan = Plan<FakeQuantize>;
using FakeQuantizeBackwardPlan = Plan<FakeQuantizeBackward>;

}  // namespace tern
