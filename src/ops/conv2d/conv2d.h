// y[i, o, oy, ox] = epilogue(sum over taps (ty, tx) and channels c of o's group of
//                            x[i, c, oy * stride - top + ty * dilation, ox * stride - left + tx * dilation]
//                            * w[o, c, ty, tx]), where pixels outside the image are 0.
//
//     w2a8      dot = exact int32 sum; t = float(dot) / s[i] * w_scale       the same bits from every kernel
//     w2_float  t = sum of x * trit, in f32; t * w_scale                     within the bound of docs/numerics.md
//     then      + bias, activation, + residual, rounded to y's type
#pragma once

#include "ops/conv2d/filters.h"
#include "ops/dot/simd_table.h"
#include "ops/op.h"
#include "tern/conv2d.h"

namespace tern {
namespace conv2d {

// An image's place in memory, in elements. One of the two inner strides is 1.
struct Image {
  std::int64_t image = 0, channel = 0, row = 0, pixel = 0;
};

// What a kernel gets: checked arguments, as pointers and strides.
struct Params {
  Conv2d::Problem problem;
  std::int64_t images = 0;
  std::int64_t height = 0, width = 0;  // of y
  FilterOrder order;
  const PackedWeights::State* weights = nullptr;  // order.rows() rows of order.columns
  const std::int16_t* by_tap = nullptr;           // of depthwise filters
  const void* x = nullptr;
  Image x_at;
  const float* x_scales = nullptr;  // of i8 images and scale_given
  std::int64_t x_scale_step = 0;    // 0: one for all images
  std::byte* y = nullptr;
  Image y_at;
  const float* bias = nullptr;
  const std::byte* residual = nullptr;
  Image residual_at;
};

using dot::SimdTable;

// The error for the first non-finite element of x.
Error non_finite_error(const Params& params);

}  // namespace conv2d

template <>
struct OpTraits<Conv2d> {
  using Params = conv2d::Params;
  static constexpr std::string_view kName = "conv2d";

  static Result<ProblemFacts> facts(const Conv2d::Problem& problem);
  static Result<Params> bind(const Conv2d::Problem& problem, const Conv2d::Args& args, DeviceId device = {});
  static bool empty(const Params& p) { return p.images == 0; }
  static std::int64_t operations(const Params& p);

  static constexpr Words kWords = Words::of(Word::granularity, Word::format, Word::m, Word::math, Word::y, Word::window,
                                            Word::model, Word::baselines);
  static Conv2d::Problem problem(const ProblemWords& words);
  static std::string text(const ProblemWords& words);
  template <class P, class See>
  static void memory(P& p, See&& see) {
    const Conv2d::Problem& c = p.problem;
    const std::int64_t channels = c.filters.in_channels * c.filters.groups, filters = c.filters.out_channels;
    see(p.x, Area::dense(p.images * channels * c.height * c.width, size_of(c.x_dtype)));
    see(p.x_scales, Area::dense(p.x_scale_step == 0 ? 1 : p.images, 4));
    see(p.weights);
    see(p.bias, Area::dense(filters, 4));
    const Area y = Area::dense(p.images * filters * p.height * p.width, size_of(c.y_dtype));
    if (p.residual != p.y) see(p.residual, y);
    see(p.y, y);
  }
};

namespace conv2d {
TERN_OP_DRIVERS(Conv2d)
}  // namespace conv2d
}  // namespace tern
