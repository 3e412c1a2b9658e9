// Convolution with ternary weights, or weights of 8 and 4 bits: packed filters, the op with its plan, BitConv2d,
// and conv2d_quantized() for one call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tern/context.h"
#include "tern/export.h"
#include "tern/layout.h"
#include "tern/linear.h"
#include "tern/plan.h"
#include "tern/quantize.h"
#include "tern/status.h"
#include "tern/tensor.h"
#include "tern/types.h"

namespace tern {

// The order of an image's axes in memory: planes of a channel each, or pixels with all their channels.
enum class ImageOrder : std::uint8_t { nchw, nhwc };

// Filters as [out_channels, in_channels, height, width]. With groups, in_channels counts those of one group, and a
// group's filters are out_channels / groups of them: as many groups as channels is a depthwise convolution.
struct FilterShape {
  std::int64_t out_channels = 0;
  std::int64_t in_channels = 0;
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t groups = 1;
  friend bool operator==(const FilterShape&, const FilterShape&) = default;
};

// Filters in the order in which kernels read them, with their scales. Packed once and shared by all copies of this
// handle and by plans; the source may be freed afterwards. A filter is a row of in_channels * height * width codes, in
// this order; scales are one for all filters or one for each.
class PackedFilters {
 public:
  PackedFilters() = default;

  // The bytes that pack() needs for codes and scales together.
  static TERN_API Result<std::size_t> packed_bytes(const FilterShape&, const Granularity&, Format format = Format::i2);

  // Codes as PackedWeights::pack() takes them, on the host. The memory is the context's.
  static TERN_API Result<PackedFilters> pack(const Context&, const QuantizedTensor&, const FilterShape&);
  static TERN_API Result<PackedFilters> pack(const Context&, const ConstTensorView& codes,
                                             const ConstTensorView& scales, const FilterShape&, const Granularity&,
                                             Format format = Format::i2);
  // Packs filters in another project's layout. Give scales and granularity only for layouts that store no scales.
  static TERN_API Result<PackedFilters> pack(const Context&, const LayoutSpec&, std::span<const std::uint8_t> bytes,
                                             const FilterShape&, std::span<const float> scales = {},
                                             const Granularity& = {});

  [[nodiscard]] TERN_API const FilterShape& shape() const;
  [[nodiscard]] TERN_API const Granularity& granularity() const;
  [[nodiscard]] TERN_API Format format() const;
  [[nodiscard]] TERN_API std::size_t bytes() const;       // codes and scales, padding included
  [[nodiscard]] TERN_API std::uint64_t checksum() const;  // of the canonical bytes, as QuantizedTensor's
  [[nodiscard]] bool empty() const { return state_ == nullptr; }

  struct State;  // the library's own
  explicit PackedFilters(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  [[nodiscard]] const State* state() const { return state_.get(); }

 private:
  std::shared_ptr<const State> state_ = {};
};

// y[i, o, oy, ox] = epilogue(sum over channels c of o's group and taps of
//                            x[i, c, oy * stride - top + ty * dilation, ox * stride - left + tx * dilation]
//                            * w[o, c, ty, tx]); pixels outside the image are 0.
struct TERN_API Conv2d {
  struct Padding {
    std::int64_t top = 0, bottom = 0, left = 0, right = 0;
    static constexpr Padding all(std::int64_t n) { return {n, n, n, n}; }
  };
  struct Size {
    std::int64_t height = 0, width = 0;
  };
  // The epilogue is linear's: t = t / s of the image; t * w_scale; t + bias; activation; t + residual; each step
  // rounded to f32, then to y's dtype.
  struct Problem {
    std::int64_t images = 1;  // the most of one run
    std::int64_t height = 0;  // of an image, which has filters.in_channels * filters.groups channels
    std::int64_t width = 0;
    FilterShape filters = {};
    std::int64_t stride_h = 1, stride_w = 1;
    std::int64_t dilation_h = 1, dilation_w = 1;
    Padding padding = {};
    DType x_dtype = DType::f32;  // f32, f16, bf16, i8
    ImageOrder x_order = ImageOrder::nchw;
    DType y_dtype = DType::f32;  // f32, f16, bf16; i32 is the plain sum of w2a8
    ImageOrder y_order = ImageOrder::nchw;
    // w2a8, the exact mode: int8 activations, exact int32 sums; an image of floats becomes int8 with one scale, as a
    // token does. w2_float: activations stay floats, within the bound of docs/numerics.md; for trits only.
    LinearMath math = LinearMath::w2a8;
    NonFinite non_finite = NonFinite::reject;  // of float activations
    Format format = Format::i2;                // of the filters: i2, b3, s8 or s4
    Granularity granularity = {};              // tensor or row, which is a scale for each filter
    bool scale_given = false;  // of float images in w2a8: x_scales has their s; otherwise it is computed
    bool bias = false;
    Activation activation = Activation::none;
    bool residual = false;
  };
  struct Args {
    ConstTensorView x;              // [images, C, H, W] or [images, H, W, C] by x_order; only the last axis is dense
    ConstTensorView x_scales = {};  // for i8 and for scale_given: f32, one or [images]; none when y is i32
    PackedFilters filters = {};
    ConstTensorView bias = {};      // f32 [out_channels]
    ConstTensorView residual = {};  // as y, of its dtype and order; may be y itself
    TensorView y;                   // [images, O, OH, OW] or [images, OH, OW, O]; only the last axis is dense
  };

  // The height and width of y. An error says what of the problem makes no sense.
  static Result<Size> output_size(const Problem&);
};

extern template class Plan<Conv2d>;
using Conv2dPlan = Plan<Conv2d>;

TERN_API std::string_view name(ImageOrder);
TERN_API Result<ImageOrder> parse_image_order(std::string_view);

// What the filters do not say of a layer. Fields are those of Conv2d::Problem.
struct BitConv2dOptions {
  std::int64_t images = 1;  // the most of one run
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t dilation_h = 1, dilation_w = 1;
  Conv2d::Padding padding = {};
  DType x_dtype = DType::f32;  // f32, f16, bf16; for int8 images with their scales make a Conv2dPlan
  ImageOrder x_order = ImageOrder::nchw;
  DType y_dtype = DType::f32;
  ImageOrder y_order = ImageOrder::nchw;
  LinearMath math = LinearMath::w2a8;
  Activation activation = Activation::none;
  std::span<const float> bias = {};  // one for each filter, copied; none: no bias
  Preference preference = {};
};

// One layer: filters, an optional bias and the plan for them, for images of one size.
class BitConv2d {
 public:
  static TERN_API Result<BitConv2d> make(const Context&, PackedFilters, const BitConv2dOptions&);

  // y = epilogue(conv2d(x, w)). x has up to options.images images, in the order and type of the options, and y as many.
  // The workspace has at least workspace_bytes() and may be shared by layers that do not run at the same time.
  TERN_API Status forward(const ConstTensorView& x, const TensorView& y, Workspace workspace) const;
  // The same with a workspace allocated for the call.
  TERN_API Status forward(const ConstTensorView& x, const TensorView& y) const;

  [[nodiscard]] std::size_t workspace_bytes() const { return plan_.workspace_bytes(); }
  [[nodiscard]] const Conv2dPlan& plan() const { return plan_; }
  [[nodiscard]] const PackedFilters& filters() const { return filters_; }
  [[nodiscard]] Conv2d::Size output_size() const { return output_size_; }

 private:
  BitConv2d(Context context, PackedFilters filters, Conv2dPlan plan, std::shared_ptr<const Tensor> bias,
            Conv2d::Size output_size)
      : context_(std::move(context)),
        filters_(std::move(filters)),
        plan_(std::move(plan)),
        bias_(std::move(bias)),
        output_size_(output_size) {}
  Context context_;
  PackedFilters filters_;
  Conv2dPlan plan_;
  std::shared_ptr<const Tensor> bias_;  // null: none
  Conv2d::Size output_size_;
};

// Of conv2d_quantized().
struct Conv2dParams {
  std::int64_t stride_h = 1, stride_w = 1;
  Conv2d::Padding padding = {};
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t groups = 1;
};
struct Conv2dDims {
  std::array<std::int64_t, 4> input = {};   // [images, channels, height, width]
  std::array<std::int64_t, 4> weight = {};  // [output channels, input channels of a group, height, width]
};

// output = conv2d(input, dequantized weights) + bias in w2_float, all dense and in the order of their dims; output is
// [images, output channels, height, width] by Conv2d::output_size(). Each call packs the weights anew: for many calls
// make a BitConv2d.
// `type` says what the weights' bytes are, seen as rows [O, I*H*W]. Of the usual types:
//     I2_S   Layout::i2, canonical rows of four trits a byte, u8 [O, ceil(I*H*W/4)], which hold any filter; or one of
//            bitnet.cpp's orders, Layout::i2_s_x86_128 (I*H*W a multiple of 128), i2_s_arm_64 (64), i2_s_1x4 (O of 4)
//     TL1    {Layout::tl1, tiles}
//     TL2    {Layout::tl2, tiles}
// Scales are one for each output channel. They replace the one scale of a tensor that i2_s_*, tl1 and tl2 store after
// their codes. A layout with scales by block is refused.
TERN_API Status conv2d_quantized(const Context&, std::span<const float> input, std::span<const std::uint8_t> weights,
                                 std::span<const float> scales, std::span<const float> bias, std::span<float> output,
                                 const Conv2dParams& params, const Conv2dDims& dims, const LayoutSpec& type);

}  // namespace tern
