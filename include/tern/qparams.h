// Scales and zero points chosen from the data, alone or together with the codes they give.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tern/affine.h"
#include "tern/export.h"
#include "tern/plan.h"
#include "tern/status.h"
#include "tern/tensor.h"
#include "tern/types.h"

namespace tern {

// Which range of values the codes cover. Values outside get the first or the last code. With zero points the range goes
// from a lowest to a highest value and includes 0; without, it goes from -a to a, and the codes must have both signs.
enum class QparamsMethod : std::uint8_t {
  minmax,      // all values; only with zero points
  absmax,      // all values; only without zero points
  percentile,  // all but a share of the largest magnitudes, or of the lowest and highest values
  mse,         // the range with the smallest sum of squared errors among 80 that shrink from the full one
};
TERN_API std::string_view name(QparamsMethod);
TERN_API Result<QparamsMethod> parse_qparams_method(std::string_view);

// The scale, and the zero point, of every range of a tensor. docs/numerics.md has the operations.
struct TERN_API ChooseQparams {
  struct Problem {
    Shape shape;
    AffineGranularity granularity;
    DType dtype = DType::f32;        // of x: f32, f16, bf16 compute in f32, f64 in f64
    Format format = Format::s8;      // the format of the codes: s8, u8, s4, u4, s2 or u2
    DType scale_dtype = DType::f32;  // f32, or the type of x
    QparamsMethod method = QparamsMethod::absmax;
    bool zero_points = false;  // chosen; else they are 0
    // Each not given: as far as the format holds. -127 and 127 leave out the code without a partner.
    std::optional<int> q_min, q_max;
    double percentile = 99.99;  // of its method: above 50, at most 100
    float eps = 0x1p-23F;       // the smallest scale, at least 2^-126: what ranges of zeros get
    NonFinite non_finite = NonFinite::reject;
    bool even_groups = false;  // refuse a last group that is shorter than the others
  };
  struct Args {
    ConstTensorView x;       // of the problem's shape, any strides
    TensorView scales;       // dense, affine_scale_count() of them
    TensorView zero_points;  // i32, dense, one for each scale
  };
};

// The same bits as ChooseQparams by minmax or absmax followed by AffineQuantize; a range of up to a few thousand
// elements is read from memory only once.
struct TERN_API DynamicQuantize {
  struct Problem {
    Shape shape;
    AffineGranularity granularity = AffineGranularity::token();
    DType dtype = DType::f32;
    Format format = Format::s8;
    DType scale_dtype = DType::f32;
    QparamsMethod method = QparamsMethod::absmax;  // or minmax
    bool zero_points = false;
    std::optional<int> q_min, q_max;
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
