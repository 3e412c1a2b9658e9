// Checks a convolution and its arguments, once, for all kernels.
#include "ops/conv2d/conv2d.h"

#include <algorithm>
#include <cmath>

#include "base/elements.h"
#include "base/errors.h"
#include "base/views.h"
#include "base/words.h"
#include "format/ranges.h"

namespace tern {

using conv2d::Params;
using Op = OpTraits<Conv2d>;

namespace {

constexpr WordTable<ImageOrder, 2> kOrders = {{{ImageOrder::nchw, "nchw"}, {ImageOrder::nhwc, "nhwc"}}};

// The most pixels of a padded image and of a result, and the most channels: kernels count them, up to a block beyond
// the last, in 32 bits. Strides, dilations and padding have the same limit, so that no sum of theirs overflows.
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 30;

Status check_most(std::string_view what, std::int64_t value) {
  if (value <= kMaxExtent) return {};
  return error(Code::invalid_argument, Op::kName, "{} is {}; 2^30 is the most", what, value);
}
Status check_positive(std::string_view what, std::int64_t value) {
  if (value > 0) return check_most(what, value);
  return error(Code::invalid_argument, Op::kName, "{} is {}; it must be 1 or more", what, value);
}

struct Axis {
  std::string_view name;  // "height", "width"
  std::int64_t size, before, after, taps, stride, dilation;
};

// The outputs along an axis.
Result<std::int64_t> outputs_of(const Axis& axis) {
  if (axis.before < 0 || axis.after < 0)
    return error(Code::invalid_argument, Op::kName, "the padding along the {} is {} and {}; it must not be negative",
                 axis.name, axis.before, axis.after);
  TERN_RETURN_IF_ERROR(check_most("the padding", std::max(axis.before, axis.after)));
  const std::int64_t padded = axis.before + axis.size + axis.after, window = (axis.taps - 1) * axis.dilation + 1;
  if (window > padded)
    return error(Code::invalid_argument, Op::kName,
                 "the filter reaches over {} pixels of the {}, the padded image has {}; pad more, or use a smaller "
                 "filter or dilation",
                 window, axis.name, padded);
  return (padded - window) / axis.stride + 1;
}

// Why no kernel can solve the problem, or an empty string.
std::string refused(const Conv2d::Problem& p) {
  const std::int64_t k = conv2d::canonical_columns(p.filters), most = dot::max_summed(p.format);
  if (k > most)
    return fmt::format("a filter has {} {} weights, above {}: an int32 sum might not fit", k, name(p.format), most);
  if (p.math == LinearMath::w2_float && !is_trits(p.format))
    return fmt::format("{} weights meet int8 activations; w2_float is for i2 and b3", name(p.format));
  if (p.granularity.kind == Granularity::Kind::group)
    return "scales by group are for linear; filters have one for all or one each";
  if (p.y_dtype != DType::i32) return {};
  if (p.math != LinearMath::w2a8) return "i32 is the bare sum of w2a8; ask for f32";
  if (p.bias || p.residual || p.activation != Activation::none)
    return "i32 is the bare sum; it goes with no bias, activation or residual";
  return {};
}

std::string epilogue_words(const Conv2d::Problem& p) {
  std::string words;
  const auto add = [&words](std::string_view word) { words += fmt::format("{}{}", words.empty() ? "" : "+", word); };
  if (p.bias) add("bias");
  if (p.activation != Activation::none) add(name(p.activation));
  if (p.residual) add("residual");
  return words.empty() ? "none" : words;
}

Shape image_shape(ImageOrder order, std::int64_t images, std::int64_t channels, Conv2d::Size size) {
  return order == ImageOrder::nchw ? Shape{images, channels, size.height, size.width}
                                   : Shape{images, size.height, size.width, channels};
}

// Checks a view of images whose last axis must be dense.
Result<conv2d::Image> bind_images(const Where& where, std::string_view argument, const ConstTensorView& view,
                                  DType dtype, ImageOrder order, const Shape& shape) {
  TERN_RETURN_IF_ERROR(check_strided(where, argument, view, dtype, shape));
  const Shape& s = view.strides;
  if (shape[3] > 1 && s[3] != 1)
    return error(Code::invalid_argument, Op::kName,
                 "{} has stride {} along its last axis; make it contiguous there first", argument, s[3]);
  if (order == ImageOrder::nchw) return conv2d::Image{.image = s[0], .channel = s[1], .row = s[2], .pixel = 1};
  return conv2d::Image{.image = s[0], .channel = 1, .row = s[1], .pixel = s[2]};
}

Status check_apart_from_y(const Conv2d::Args& args, std::string_view name, ByteSpan bytes) {
  return check_apart(Op::kName, name, bytes, "y", bytes_of(args.y));
}

}  // namespace

std::string_view name(ImageOrder order) { return word_of(kOrders, order); }
Result<ImageOrder> parse_image_order(std::string_view word) { return parse_word(kOrders, "image order", word); }

Result<Conv2d::Size> Conv2d::output_size(const Problem& p) {
  for (const auto& [what, value] : {std::pair<std::string_view, std::int64_t>("height", p.height),
                                    {"width", p.width},
                                    {"stride_h", p.stride_h},
                                    {"stride_w", p.stride_w},
                                    {"dilation_h", p.dilation_h},
                                    {"dilation_w", p.dilation_w}})
    TERN_RETURN_IF_ERROR(check_positive(what, value));
  TERN_RETURN_IF_ERROR(conv2d::check_filters(Op::kName, p.filters, p.granularity, p.format));
  TERN_ASSIGN(height, outputs_of({"height", p.height, p.padding.top, p.padding.bottom, p.filters.height, p.stride_h,
                                  p.dilation_h}));
  TERN_ASSIGN(width, outputs_of({"width", p.width, p.padding.left, p.padding.right, p.filters.width, p.stride_w,
                                 p.dilation_w}));
  return Size{height, width};
}

Result<ProblemFacts> Op::facts(const Conv2d::Problem& p) {
  if (p.images < 0) return error(Code::invalid_argument, kName, "images is {}; it must not be negative", p.images);
  TERN_ASSIGN(y, Conv2d::output_size(p));
  const DType t = p.y_dtype;
  if (t != DType::f32 && t != DType::f16 && t != DType::bf16 && t != DType::i32)
    return error(Code::invalid_argument, kName, "y cannot be {}; it is f32, f16, bf16 or i32", name(t));
  if (p.x_dtype == DType::i8 && p.math == LinearMath::w2_float)
    return error(Code::invalid_argument, kName, "x is i8, which {} does not take; it is for f32, f16 and bf16",
                 name(p.math));
  if (p.scale_given && (p.x_dtype == DType::i8 || p.math == LinearMath::w2_float))
    return error(Code::invalid_argument, kName, "scale_given is for images of floats in w2a8, not for {} in {}",
                 name(p.x_dtype), name(p.math));
  const Conv2d::Size padded{p.height + p.padding.top + p.padding.bottom, p.width + p.padding.left + p.padding.right};
  for (const auto& [what, channels, size] :
       {std::tuple("x with its padding", p.filters.in_channels * p.filters.groups, padded),
        std::tuple("y", p.filters.out_channels, y)}) {
    const auto elements = element_count({p.images, channels, size.height, size.width});
    const auto pixels = checked_mul(size.height, size.width);
    if (!elements.ok() || *elements > (std::int64_t{1} << 60))
      return error(Code::invalid_argument, kName,
                   "{}: {} images of {} channels and {} x {} pixels are more than 2^63 bytes", what, p.images, channels,
                   size.height, size.width);
    if (!pixels || *pixels > kMaxExtent || channels > kMaxExtent)
      return error(Code::invalid_argument, kName, "{} has {} channels of {} x {} pixels; 2^30 are the most of each",
                   what, channels, size.height, size.width);
  }
  ProblemFacts facts{
      .op = kName, .dtype = p.x_dtype, .format = p.format, .m = p.images, .k = conv2d::canonical_columns(p.filters)};
  facts.refused = refused(p);
  facts.refused_on_gpu = "conv2d has no kernels for GPUs yet; use a context of the CPU";
  facts.epilogue = epilogue_words(p);
  facts.guarantee = p.math == LinearMath::w2a8 ? Guarantee{.math = "int8", .accumulator = "int32"}
                                               : Guarantee{.math = "f32", .accumulator = "f64", .bit_stable = true};
  return facts;
}

Result<Params> Op::bind(const Conv2d::Problem& p, const Conv2d::Args& args, DeviceId device) {
  const Where where(kName, device);
  Params params{.problem = p};
  TERN_ASSIGN(size, Conv2d::output_size(p));
  params.height = size.height;
  params.width = size.width;
  const PackedFilters::State* filters = args.filters.state();
  if (filters == nullptr)
    return error(Code::invalid_argument, kName, "the filters are empty; PackedFilters::pack makes them");
  const FilterShape &have = filters->order.shape, &want = p.filters;
  const PackedWeights::State* weights = filters->weights.state();
  if (have != want)
    return error(Code::invalid_argument, kName,
                 "the filters are [{}, {}, {}, {}] in {} groups, the problem says [{}, {}, {}, {}] in {}",
                 have.out_channels, have.in_channels, have.height, have.width, have.groups, want.out_channels,
                 want.in_channels, want.height, want.width, want.groups);
  if (weights->format != p.format)
    return error(Code::invalid_argument, kName, "the filters are {}, the problem says {}", name(weights->format),
                 name(p.format));
  if (filters->granularity != p.granularity)
    return error(Code::invalid_argument, kName, "the filters have scales by {}, the problem says {}",
                 name(filters->granularity), name(p.granularity));
  params.order = filters->order;
  params.weights = weights;
  params.by_tap = filters->by_tap.data();

  if (args.x.shape.rank() != 4)
    return error(Code::invalid_argument, kName, "x is {}; images have four axes", name(args.x.shape));
  params.images = args.x.shape[0];
  if (params.images > p.images)
    return error(Code::invalid_argument, kName,
                 "x has {} images, the plan was made for up to {}: images of its problem", params.images, p.images);
  const Shape x = image_shape(p.x_order, params.images, want.in_channels * want.groups, {p.height, p.width});
  const Shape y = image_shape(p.y_order, params.images, want.out_channels, size);
  TERN_ASSIGN(x_at, bind_images(where, "x", args.x, p.x_dtype, p.x_order, x));
  TERN_ASSIGN(y_at, bind_images(where, "y", args.y, p.y_dtype, p.y_order, y));
  TERN_RETURN_IF_ERROR(check_distinct(where, "y", args.y));
  params.x = args.x.data;
  params.x_at = x_at;
  params.y = static_cast<std::byte*>(args.y.data);
  params.y_at = y_at;
  TERN_RETURN_IF_ERROR(check_apart_from_y(args, "x", bytes_of(args.x)));
  const auto codes = reinterpret_cast<std::uintptr_t>(weights->codes);
  TERN_RETURN_IF_ERROR(check_apart_from_y(args, "filters", {codes, codes + weights->bytes}));

  const bool scaled = p.y_dtype != DType::i32 || args.x_scales.data != nullptr;
  if (p.scale_given || (p.x_dtype == DType::i8 && scaled)) {
    TERN_ASSIGN(given, element_count(args.x_scales.shape));
    const std::int64_t count = given == 1 ? 1 : params.images;
    TERN_RETURN_IF_ERROR(check_dense(where, "x_scales", args.x_scales, DType::f32, count));
    params.x_scales = static_cast<const float*>(args.x_scales.data);
    params.x_scale_step = given == 1 ? 0 : 1;
    TERN_RETURN_IF_ERROR(check_scales(where, "x_scales", params.x_scales, count));
    TERN_RETURN_IF_ERROR(check_apart_from_y(args, "x_scales", bytes_of(args.x_scales)));
  }
  if (p.bias) {
    TERN_RETURN_IF_ERROR(check_dense(where, "bias", args.bias, DType::f32, want.out_channels));
    TERN_RETURN_IF_ERROR(check_apart_from_y(args, "bias", bytes_of(args.bias)));
    params.bias = static_cast<const float*>(args.bias.data);
  }
  if (p.residual) {
    TERN_ASSIGN(residual_at, bind_images(where, "residual", args.residual, p.y_dtype, p.y_order, y));
    params.residual = static_cast<const std::byte*>(args.residual.data);
    params.residual_at = residual_at;
    if (args.residual.data != args.y.data || args.residual.strides != args.y.strides)
      TERN_RETURN_IF_ERROR(check_apart_from_y(args, "residual", bytes_of(args.residual)));
  }
  return params;
}

std::int64_t Op::operations(const Params& p) {
  return 2 * p.images * p.height * p.width * p.problem.filters.out_channels *
         conv2d::canonical_columns(p.problem.filters);
}

Conv2d::Problem Op::problem(const ProblemWords& words) {
  const WindowWords& w = words.window;
  Conv2d::Problem p{.images = words.m.value_or(1),
                    .height = w.height,
                    .width = w.width,
                    .filters = {w.filters[0], w.filters[1], w.filters[2], w.filters[3], w.groups},
                    .stride_h = w.stride[0],
                    .stride_w = w.stride[1],
                    .dilation_h = w.dilation[0],
                    .dilation_w = w.dilation[1],
                    .padding = {w.padding[0], w.padding[1], w.padding[2], w.padding[3]},
                    .x_order = w.planes ? ImageOrder::nchw : ImageOrder::nhwc,
                    .y_order = w.y_planes ? ImageOrder::nchw : ImageOrder::nhwc};
  p.x_dtype = words.dtype.value_or(words.math == LinearMath::w2a8 ? DType::i8 : DType::f32);
  p.y_dtype = words.y_dtype;
  p.math = words.math;
  p.format = words.format.value_or(Format::i2);
  p.granularity = words.granularity;
  return p;
}

std::string Op::text(const ProblemWords& words) {
  const Conv2d::Problem p = problem(words);
  return fmt::format("conv2d of {} {} of {} x {} x {} {} with {} filters of {} x {} x {} in {}, scales by {}, {}",
                     p.images, p.images == 1 ? "image" : "images", p.filters.in_channels * p.filters.groups, p.height,
                     p.width, name(p.x_dtype), p.filters.out_channels, p.filters.in_channels, p.filters.height,
                     p.filters.width, name(p.format), name(p.granularity), name(p.math));
}

namespace conv2d {

Error non_finite_error(const Params& p) {
  const Conv2d::Problem& c = p.problem;
  const std::int64_t channels = c.filters.in_channels * c.filters.groups;
  const Shape shape = image_shape(c.x_order, p.images, channels, {c.height, c.width});
  const bool planes = c.x_order == ImageOrder::nchw;
  std::int64_t element = 0;
  for (std::int64_t i = 0; i < shape[0]; ++i)
    for (std::int64_t a = 0; a < shape[1]; ++a)
      for (std::int64_t b = 0; b < shape[2]; ++b)
        for (std::int64_t d = 0; d < shape[3]; ++d, ++element) {
          const std::int64_t at = planes ? a * p.x_at.channel + b * p.x_at.row + d * p.x_at.pixel
                                         : a * p.x_at.row + b * p.x_at.pixel + d * p.x_at.channel;
          const double v = read_element(p.x, c.x_dtype, i * p.x_at.image + at);
          if (!std::isfinite(v))
            return error_at(element, Code::non_finite, Op::kName,
                            "x[{}, {}, {}, {}] (element {}) is {}; mend it, or ask for non_finite = saturate", i, a, b,
                            d, element, v);
        }
  return error(Code::internal, Op::kName, "a kernel refused images that are all finite");
}

}  // namespace conv2d
}  // namespace tern
