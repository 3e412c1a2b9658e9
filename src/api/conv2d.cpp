// BitConv2d and conv2d_quantized(): check, plan, run.
#include "tern/conv2d.h"

#include "base/errors.h"
#include "base/fmt.h"
#include "format/format.h"
#include "plan/own_stream.h"
#include "plan/run_once.h"

namespace tern {
namespace {

constexpr std::string_view kQuantized = "conv2d_quantized";

Status check_count(std::string_view field, std::size_t given, std::int64_t needed, std::string_view what) {
  if (static_cast<std::int64_t>(given) == needed) return {};
  return error(Code::invalid_argument, kQuantized, "{} has {} values, {} {} needed", field, given, needed, what);
}

std::string text_of(const std::array<std::int64_t, 4>& sizes) {
  return fmt::format("[{}, {}, {}, {}]", sizes[0], sizes[1], sizes[2], sizes[3]);
}

Status check_dims(const Conv2dParams& params, const Conv2dDims& dims) {
  for (const auto& [field, sizes] : {std::pair("dims.input", dims.input), std::pair("dims.weight", dims.weight)})
    for (const std::int64_t size : sizes)
      if (size < 1)
        return error(Code::invalid_argument, kQuantized, "{} is {}; every size must be 1 or more", field,
                     text_of(sizes));
  if (params.groups < 1)
    return error(Code::invalid_argument, kQuantized, "params.groups is {}; it must be 1 or more", params.groups);
  if (dims.input[1] % params.groups != 0 || dims.input[1] / params.groups != dims.weight[1])
    return error(Code::invalid_argument, kQuantized,
                 "dims.input is {} and dims.weight {}: {} channels in {} groups of {} do not agree",
                 text_of(dims.input), text_of(dims.weight), dims.input[1], params.groups, dims.weight[1]);
  return {};
}

}  // namespace

Result<BitConv2d> BitConv2d::make(const Context& context, PackedFilters filters, const BitConv2dOptions& options) {
  if (filters.empty())
    return error(Code::invalid_argument, "BitConv2d", "the filters are empty; PackedFilters::pack makes them");
  const std::int64_t n = filters.shape().out_channels;
  if (!options.bias.empty() && static_cast<std::int64_t>(options.bias.size()) != n)
    return error(Code::invalid_argument, "BitConv2d", "{} bias values for {} filters", options.bias.size(), n);
  if (options.x_dtype == DType::i8)
    return error(Code::invalid_argument, "BitConv2d",
                 "x is i8, which comes with scales of its own; use a Conv2dPlan, or f32, f16 or bf16");
  const Conv2d::Problem problem{.images = options.images,
                                .height = options.height,
                                .width = options.width,
                                .filters = filters.shape(),
                                .stride_h = options.stride_h,
                                .stride_w = options.stride_w,
                                .dilation_h = options.dilation_h,
                                .dilation_w = options.dilation_w,
                                .padding = options.padding,
                                .x_dtype = options.x_dtype,
                                .x_order = options.x_order,
                                .y_dtype = options.y_dtype,
                                .y_order = options.y_order,
                                .math = options.math,
                                .format = filters.format(),
                                .granularity = filters.granularity(),
                                .bias = !options.bias.empty(),
                                .activation = options.activation};
  TERN_ASSIGN(size, Conv2d::output_size(problem));
  TERN_ASSIGN(plan, Conv2dPlan::select(context, problem, options.preference));
  std::shared_ptr<const Tensor> bias;
  if (problem.bias) {
    TERN_ASSIGN(own, Tensor::allocate(context.memory(), DType::f32, {n}, "bias"));
    TERN_ASSIGN(stream, detail::OwnStream::open(context));
    TERN_RETURN_IF_ERROR(context.copy(own.view(), {options.bias.data(), DType::f32, {n}}, *stream));
    TERN_RETURN_IF_ERROR(stream->synchronize());
    bias = std::make_shared<const Tensor>(std::move(own));
  }
  return BitConv2d(context, std::move(filters), std::move(plan), std::move(bias), size);
}

Status BitConv2d::forward(const ConstTensorView& x, const TensorView& y, Workspace workspace) const {
  Conv2d::Args args{.x = x, .filters = filters_, .y = y};
  if (bias_ != nullptr) args.bias = bias_->view();
  return plan_.run(context_.stream(), workspace, args);
}

Status BitConv2d::forward(const ConstTensorView& x, const TensorView& y) const {
  TERN_ASSIGN(workspace, allocate_workspace(context_, plan_));
  return forward(x, y, workspace.as<std::byte>());
}

Status conv2d_quantized(const Context& context, std::span<const float> input, std::span<const std::uint8_t> weights,
                        std::span<const float> scales, std::span<const float> bias, std::span<float> output,
                        const Conv2dParams& params, const Conv2dDims& dims, const LayoutSpec& type) {
  TERN_RETURN_IF_ERROR(check_dims(params, dims));
  const auto& [n, channels, height, width] = dims.weight;
  Conv2d::Problem problem{.images = dims.input[0],
                          .height = dims.input[2],
                          .width = dims.input[3],
                          .filters = {n, channels, height, width, params.groups},
                          .stride_h = params.stride_h,
                          .stride_w = params.stride_w,
                          .dilation_h = params.dilation_h,
                          .dilation_w = params.dilation_w,
                          .padding = params.padding,
                          .math = LinearMath::w2_float,
                          .granularity = Granularity::row(),
                          .bias = !bias.empty()};
  TERN_ASSIGN(size, Conv2d::output_size(problem));
  const Shape x{dims.input[0], dims.input[1], dims.input[2], dims.input[3]};
  const Shape y{dims.input[0], n, size.height, size.width};
  TERN_ASSIGN(x_count, element_count(x));
  TERN_ASSIGN(y_count, element_count(y));
  TERN_RETURN_IF_ERROR(check_count("input", input.size(), x_count, "of dims.input " + name(x) + " are"));
  TERN_RETURN_IF_ERROR(check_count("scales", scales.size(), n, "by dims.weight are"));
  if (problem.bias) TERN_RETURN_IF_ERROR(check_count("bias", bias.size(), n, "by dims.weight are"));
  TERN_RETURN_IF_ERROR(check_count("output", output.size(), y_count, "of " + name(y) + " are"));

  // The codes without the scale that may follow them.
  const std::optional<Granularity> inside = scales_in(type.layout);
  if (inside && inside->kind != Granularity::Kind::tensor)
    return error(Code::unsupported, kQuantized, "{} has scales by {}; filters have one each", name(type.layout),
                 name(*inside));
  const std::int64_t k = channels * height * width;
  TERN_ASSIGN(bytes, layout_bytes(type, n, k));
  if (weights.size() != bytes)
    return error(Code::invalid_argument, kQuantized, "weights has {} bytes, {} of {} x {} weights in {} are needed",
                 weights.size(), bytes, n, k, name(type.layout));
  float replaced = 1;
  TERN_ASSIGN(codes, Tensor::allocate(host_memory(), DType::u8, {n, row_bytes(Format::i2, k)}, "filters"));
  TERN_RETURN_IF_ERROR(
      import_weights(type, weights, n, k, codes.view(), std::span(&replaced, inside.has_value() ? 1 : 0)));
  TERN_ASSIGN(filters, PackedFilters::pack(context, std::as_const(codes).view(), {scales.data(), DType::f32, {n}},
                                           problem.filters, problem.granularity));
  TERN_ASSIGN(plan, Conv2dPlan::select(context, problem));
  return run_once(context, plan,
                  {.x = {input.data(), DType::f32, x},
                   .filters = filters,
                   .bias = {bias.data(), DType::f32, {static_cast<std::int64_t>(bias.size())}},
                   .y = {output.data(), DType::f32, y}});
}

}  // namespace tern
