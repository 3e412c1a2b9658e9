// Scales and zero points chosen from the data, alone or together with the codes they give.
#pragma once

#include <cstdint>
#include <string_view>

#include "tern/affine.h"
#include "tern/export.h"
#include "tern/plan.h"
#include "tern/status.h"
#include "tern/tensor.h"
#include "tern/types.h"

namespace tern {

// Which values the codes of a range must reach. Values beyond them get the first or the last code. Without zero points
// the values are those up to a magnitude, on both sides of 0, and the codes must have both signs; with zero points they
// are those from the lowest to the highest, and 0.
enum class QparamsMethod : std::uint8_t {
  minmax,      // all; with zero points only
  absmax,      // all; without zero points only
  percentile,  // all but some of the largest magnitudes, or of the lowest and highest values
  mse,         // those with the smallest sum of squared errors, of 80 ranges that shrink from all
};
TERN_API std::string_view name(QparamsMethod);
TERN_API Result<QparamsMethod> parse_qparams_method(std::string_view);

// The scale, and the zero point, of every range of a tensor. docs/numerics.md has the operations.
struct TERN_API ChooseQparams {
  struct Problem {
    Shape shape;
    AffineGranularity granularity;
    DType dtype = DType::f32;        // of x: f32, f16, bf16 compute in f32, f64 in f64
    Format format = Format::s8;      // whose codes they are for: s8, u8, s4, u4, s2 or u2
    DType scale_dtype = DType::f32;  // f32, or that of x
    QparamsMethod method = QparamsMethod::absmax;
    bool zero_points = false;   // chosen; else they are 0
    int q_min = 0, q_max = 0;   // both 0: all that the format holds; -127 and 127 leave out the code without a partner
    double percentile = 99.99;  // of its method: above 50, at most 100
    float eps = 0x1p-23F;       // the smallest scale, at least 2^-126: what ranges of zeros get
    NonFinite non_finite = NonFinite::reject;
    bool even_groups = false;  // refuse a last group that is short
  };
  struct Args {
    ConstTensorView x;       // of the problem's shape, any strides
    TensorView scales;       // dense, affine_scale_count() of them
    TensorView zero_points;  // i32, dense, one for each scale
  };
};

// ChooseQparams by minmax or absmax, then AffineQuantize, to the bit; a range of some thousand elements is read from
// memory once.
struct TERN_API DynamicQuantize {
  struct Problem {
    Shape shape;
    AffineGranularity granularity = AffineGranularity::token();
    DType dtype = DType::f32;
    Format format = Format::s8;
    DType scale_dtype = DType::f32;
    QparamsMethod method = QparamsMethod::absmax;  // or minmax
    bool zero_points = false;
    int q_min = 0, q_max = 0;
    float eps = 0x1p-23F;
    AffineMath math = AffineMath::division;
    NonFinite non_finite = NonFinite::reject;
    bool even_groups = false;
  };
  struct Args {
    ConstTensorView x;
    TensorView codes;  // as those of AffineQuantize
    TensorView scales;
    TensorView zero_points;
  };
};

extern template class Plan<ChooseQparams>;
extern template class Plan<DynamicQuantize>;
using ChooseQparamsPlan = Plan<ChooseQparams>;
using DynamicQuantizePlan = Plan<DynamicQuantize>;

}  // namespace tern
