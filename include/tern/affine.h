// Affine quantization with given scales and zero points: q = clamp(rne(x/s) + zp, q_min, q_max), and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tern/export.h"
#include "tern/plan.h"
#include "tern/status.h"
#include "tern/tensor.h"
#include "tern/types.h"

namespace tern {

// Which elements share a scale and a zero point. Axes count from 0, or backward from the last one, which is -1.
struct AffineGranularity {
  enum class Kind : std::uint8_t {
    tensor,   // all: one scale
    channel,  // one for each index of an axis
    token,    // one for each row along the last axis
    group,    // one for each group_size elements along an axis; the last group may be short
  };
  Kind kind = Kind::tensor;
  int axis = -1;                // of channel and group
  std::int64_t group_size = 0;  // of group

  static constexpr AffineGranularity tensor() { return {}; }
  static constexpr AffineGranularity channel(int axis) { return {Kind::channel, axis, 0}; }
  static constexpr AffineGranularity token() { return {Kind::token, -1, 0}; }
  static constexpr AffineGranularity group(std::int64_t size = 128, int axis = -1) { return {Kind::group, axis, size}; }
  friend bool operator==(const AffineGranularity&, const AffineGranularity&) = default;
};
TERN_API std::string name(const AffineGranularity&);  // "tensor", "channel:0", "token", "group:128", "group:128:0"
TERN_API Result<AffineGranularity> parse_affine_granularity(std::string_view);

// How x/s is computed. docs/numerics.md has examples of the difference.
enum class AffineMath : std::uint8_t {
  division,    // x/s, one rounding
  reciprocal,  // x * (1/s), two roundings, as PyTorch on a CPU
  torch_cuda,  // x/s in f64, as PyTorch's quantize_per_tensor and _per_channel on a GPU
};
TERN_API std::string_view name(AffineMath);
TERN_API Result<AffineMath> parse_affine_math(std::string_view);

// The number of scales of a tensor: 1 (tensor), the size of the axis (channel), the number of rows (token), or, for
// groups, the number of elements of the tensor's shape with the group's axis divided by the group size, rounded up.
// Scales are dense and row-major in that shape.
TERN_API Result<std::int64_t> affine_scale_count(const Shape& shape, const AffineGranularity& granularity);

// codes = clamp(rne(x/s) + zp, q_min, q_max).
struct TERN_API AffineQuantize {
  struct Problem {
    Shape shape;
    AffineGranularity granularity;
    DType dtype = DType::f32;         // of x: f32, f16, bf16 compute in f32, f64 in f64
    Format format = Format::s8;       // s8, u8, s4, u4, s2 or u2
    DType scale_dtype = DType::f32;   // f32, or that of x
    bool zero_points = false;         // given; else they are 0
    std::optional<int> q_min, q_max;  // each not given: as far as the format holds
    AffineMath math = AffineMath::division;
    NonFinite non_finite = NonFinite::reject;
    bool even_groups = false;  // refuse a last group that is shorter than the others
  };
  struct Args {
    ConstTensorView x;            // of the problem's shape, any strides
    ConstTensorView scales;       // dense, finite and above 0
    ConstTensorView zero_points;  // i32, dense, one for each scale, in [q_min, q_max]
    TensorView codes;  // x's shape, the last axis ceil(k / codes a byte); i8 for s8, else u8; rows may be strided
  };
};

// y = float(code - zp) * s, rounded once, and once more when y is f16 or bf16.
struct TERN_API AffineDequantize {
  struct Problem {
    Shape shape;
    AffineGranularity granularity;
    DType dtype = DType::f32;  // of y
    Format format = Format::s8;
    DType scale_dtype = DType::f32;  // f32, or the type of y
    bool zero_points = false;
    bool even_groups = false;
  };
  struct Args {
    ConstTensorView codes;  // as AffineQuantize writes them
    ConstTensorView scales;
    ConstTensorView zero_points;  // each a code of the format
    TensorView y;                 // of the problem's shape, any strides that do not overlap
  };
};

extern template class Plan<AffineQuantize>;
extern template class Plan<AffineDequantize>;
using AffineQuantizePlan = Plan<AffineQuantize>;
using AffineDequantizePlan = Plan<AffineDequantize>;

}  // namespace tern
