// BitConv2d and conv2d_quantized() as a user calls them.
#include "tern/conv2d.h"

#include <gtest/gtest.h>

#include "lab/conv2d_truth.h"
#include "plan/run_once.h"
#include "tests/support/linear_weights.h"

namespace tern::test {
namespace {

using lab::conv_case;
using lab::ConvCase;
using lab::ConvData;
using lab::ConvTruth;
using lab::Random;

// A layer of 21 filters of 5 x 3 x 3 for up to two images of 9 x 7, with bias and ReLU.
class ConvLayer : public ::testing::Test {
 protected:
  Random random = Random(7);
  ConvCase c = conv_case(random,
                         {.images = 2,
                          .height = 9,
                          .width = 7,
                          .filters = {21, 5, 3, 3},
                          .stride_h = 2,
                          .dilation_w = 2,
                          .padding = {1, 0, 2, 1},
                          .x_order = ImageOrder::nhwc,
                          .y_dtype = DType::f16,
                          .granularity = Granularity::row(),
                          .bias = true,
                          .activation = Activation::relu},
                         ConvData::random);
  PackedFilters filters;
  std::vector<std::byte> y = std::vector<std::byte>(static_cast<std::size_t>(*element_count(c.y_shape())) * 2);
  void SetUp() override {
    auto packed = c.pack(open());
    ASSERT_TRUE(packed.ok()) << message(packed);
    filters = *packed;
  }
  [[nodiscard]] BitConv2dOptions options() const {
    return {.images = 2,
            .height = 9,
            .width = 7,
            .stride_h = 2,
            .dilation_w = 2,
            .padding = {1, 0, 2, 1},
            .x_order = ImageOrder::nhwc,
            .y_dtype = DType::f16,
            .activation = Activation::relu,
            .bias = c.bias};
  }
  [[nodiscard]] ConstTensorView x_view() const { return {c.x.data(), DType::f32, c.x_shape()}; }
  [[nodiscard]] TensorView y_view() { return {y.data(), DType::f16, c.y_shape()}; }
};

TEST_F(ConvLayer, IsWhatItsDefinitionSaysAndWhatAPlanComputes) {
  const Context context = open();
  auto layer = BitConv2d::make(context, filters, options());
  ASSERT_TRUE(layer.ok()) << message(layer);
  EXPECT_EQ(layer->output_size().height, c.y.height);
  EXPECT_EQ(layer->output_size().width, c.y.width);
  EXPECT_EQ(layer->filters().state(), filters.state());
  Memory memory(layer->workspace_bytes());
  ASSERT_TRUE(layer->forward(x_view(), y_view(), memory.span()).ok());
  EXPECT_EQ(y, ConvTruth(c).bits());
  EXPECT_TRUE(memory.edges_untouched());

  auto plan = Conv2dPlan::select(context, c.problem);
  ASSERT_TRUE(plan.ok()) << message(plan);
  EXPECT_EQ(plan->workspace_bytes(), layer->workspace_bytes());
  EXPECT_EQ(plan->id().str(), layer->plan().id().str());
}

TEST_F(ConvLayer, TakesFewerImagesAndFloatMath) {
  c.problem.math = LinearMath::w2_float;
  c.problem.bias = false;
  c.problem.activation = Activation::none;  // the bound of floats does not look at activations
  c.bias.clear();
  BitConv2dOptions o = options();
  o.math = LinearMath::w2_float;
  o.activation = Activation::none;
  auto layer = BitConv2d::make(open(), filters, o);
  ASSERT_TRUE(layer.ok()) << message(layer);
  c.problem.images = 1;
  y.resize(y.size() / 2);
  ASSERT_TRUE(layer->forward(x_view(), y_view()).ok());
  EXPECT_EQ(ConvTruth(c).beyond_bound(y), "");
}

TEST_F(ConvLayer, CopiesItsBias) {
  const std::vector<std::byte> want = ConvTruth(c).bits();
  auto layer = BitConv2d::make(open(), filters, options());
  ASSERT_TRUE(layer.ok());
  std::ranges::fill(c.bias, NAN);
  ASSERT_TRUE(layer->forward(x_view(), y_view()).ok());
  EXPECT_EQ(y, want);
}

TEST_F(ConvLayer, CopiesShareTheFilters) {
  auto layer = BitConv2d::make(open(), filters, options());
  ASSERT_TRUE(layer.ok());
  const BitConv2d copy = *layer;
  EXPECT_EQ(copy.filters().state(), filters.state());
  filters = {};
  BitConv2dOptions other = options();
  other.bias = {};
  layer = BitConv2d::make(open(), copy.filters(), other);
  ASSERT_TRUE(copy.forward(x_view(), y_view()).ok());
  EXPECT_EQ(y, ConvTruth(c).bits());
}

// A scale that a caller gives may be too large for some pixels, or for all.
TEST_F(ConvLayer, PlansClampWhatAGivenScaleMakesTooLarge) {
  const Context context = open();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const ImageOrder order : {ImageOrder::nchw, ImageOrder::nhwc})
      for (const float scale : {50.0F, 90.0F, 1000.0F, 3e38F}) {
        Conv2d::Problem p = c.problem;
        p.x_dtype = dtype;
        p.x_order = order;
        p.width = 37;  // whole vectors and a rest
        p.scale_given = true;
        ConvCase given = conv_case(random, p, ConvData::random);
        given.x_scales = {scale, 1};
        const auto packed = given.pack(context);
        ASSERT_TRUE(packed.ok()) << message(packed);
        const std::vector<std::byte> want = ConvTruth(given).bits();
        for (const std::string kernel : {"", "conv2d.i2.scalar", "conv2d.i2.reference"}) {
          auto plan = Conv2dPlan::select(context, p, {.kernel = kernel, .strict = true});
          ASSERT_TRUE(plan.ok()) << message(plan);
          std::vector<std::byte> got(want.size());
          const Status status = run_once(context, *plan,
                                         {.x = {given.x.data(), dtype, given.x_shape()},
                                          .x_scales = {given.x_scales.data(), DType::f32, {2}},
                                          .filters = *packed,
                                          .bias = {given.bias.data(), DType::f32, {21}},
                                          .y = {got.data(), DType::f16, given.y_shape()}});
          ASSERT_TRUE(status.ok()) << message(status);
          EXPECT_TRUE(got == want) << given.text() << ", scale " << scale << ' ' << kernel;
        }
      }
}

TEST_F(ConvLayer, RefusesWhatItCannotTake) {
  const auto make = [this](auto change) {
    BitConv2dOptions o = options();
    change(o);
    return message(BitConv2d::make(open(), filters, o));
  };
  EXPECT_EQ(make([](BitConv2dOptions& o) { o.bias = o.bias.first(20); }),
            "invalid_argument: 20 bias values for 21 filters (BitConv2d)");
  EXPECT_EQ(make([](BitConv2dOptions& o) { o.x_dtype = DType::i8; }),
            "invalid_argument: x is i8, which comes with scales of its own; use a Conv2dPlan, or f32, f16 or bf16 "
            "(BitConv2d)");
  EXPECT_EQ(make([](BitConv2dOptions& o) { o.images = -1; }),
            "invalid_argument: images is -1; it must not be negative (conv2d)");
  EXPECT_EQ(make([](BitConv2dOptions& o) { o.stride_h = 0; }),
            "invalid_argument: stride_h is 0; it must be 1 or more (conv2d)");
  EXPECT_EQ(make([](BitConv2dOptions& o) { o.preference = {.kernel = "conv2d.i2.no", .strict = true}; }).find("ok"),
            std::string::npos);
  EXPECT_EQ(message(BitConv2d::make(open(), {}, options())),
            "invalid_argument: the filters are empty; PackedFilters::pack makes them (BitConv2d)");

  auto layer = BitConv2d::make(open(), filters, options());
  ASSERT_TRUE(layer.ok());
  const std::size_t needed = layer->workspace_bytes();
  ASSERT_GT(needed, 0U);
  const Memory memory(needed);
  EXPECT_EQ(message(layer->forward(x_view(), y_view(), memory.span().first(needed - 1))),
            "invalid_argument: the workspace has " + std::to_string(needed - 1) + " bytes, " + std::to_string(needed) +
                " are needed (conv2d)");
  ConstTensorView planes = x_view();
  planes.shape = {2, 5, 9, 7};
  EXPECT_EQ(layer->forward(planes, y_view()).code(), Code::invalid_argument);
}

// One call of conv2d_quantized() for floats, with what it is compared with.
class QuantizedConv : public ::testing::Test {
 protected:
  // Weights of a case, in canonical codes, converted to a layout. The scale that the layout stores becomes 7, which
  // must not count.
  static std::vector<std::uint8_t> bytes_in(const LayoutSpec& type, const ConvCase& c) {
    const std::int64_t n = c.problem.filters.out_channels, k = c.k();
    std::vector<std::uint8_t> bytes(*layout_bytes(type, n, k));
    const ConstTensorView codes{c.codes.data(), DType::u8, {n, row_bytes(Format::i2, k)}};
    const float seven = 7;
    const auto lost =
        export_weights(type, codes, n, k, std::span(&seven, scales_in(type.layout) ? 1 : 0), {}, bytes, Lossy::refuse);
    EXPECT_TRUE(lost.ok()) << message(lost);
    return bytes;
  }
  static std::span<const float> floats(const std::vector<std::byte>& bytes) {
    return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
  }
  static std::vector<float> output_of(const ConvCase& c) {
    return std::vector<float>(static_cast<std::size_t>(*element_count(c.y_shape())), NAN);
  }
};

// Shape and bound as a user of the reference project wrote them: every type of weights, 1e-3.
TEST_F(QuantizedConv, IsTheFloatConvolutionOfTheDequantizedWeights) {
  constexpr std::int64_t kImage = 64, kChannels = 32, kFilters = 64, kOut = 62;
  const Conv2dDims dims{.input = {1, kChannels, kImage, kImage}, .weight = {kFilters, kChannels, 3, 3}};
  Random random(24);
  ConvCase c = conv_case(random,
                         {.height = kImage,
                          .width = kImage,
                          .filters = {kFilters, kChannels, 3, 3},
                          .math = LinearMath::w2_float,
                          .granularity = Granularity::row(),
                          .bias = true},
                         ConvData::random);
  ASSERT_EQ(c.y.height, kOut);
  ASSERT_EQ(c.y.width, kOut);
  for (float& scale : c.w_scales) scale *= 0.1F;
  const std::span<const float> x = floats(c.x);

  // Filters first, as the reference has it: dequantize, then six loops.
  std::vector<float> w, want;
  const std::int64_t line = row_bytes(Format::i2, c.k());
  for (std::int64_t o = 0; o < kFilters; ++o)
    for (std::int64_t i = 0; i < c.k(); ++i)
      w.push_back(c.w_scales[static_cast<std::size_t>(o)] *
                  static_cast<float>(
                      read_code(Format::i2, reinterpret_cast<const std::uint8_t*>(c.codes.data()) + o * line, i)));
  for (std::int64_t o = 0; o < kFilters; ++o)
    for (std::int64_t oy = 0; oy < kOut; ++oy)
      for (std::int64_t ox = 0; ox < kOut; ++ox) {
        float sum = 0;
        for (std::int64_t i = 0; i < kChannels; ++i)
          for (std::int64_t ty = 0; ty < 3; ++ty)
            for (std::int64_t tx = 0; tx < 3; ++tx)
              sum += x[static_cast<std::size_t>((i * kImage + oy + ty) * kImage + ox + tx)] *
                     w[static_cast<std::size_t>(((o * kChannels + i) * 3 + ty) * 3 + tx)];
        want.push_back(sum + c.bias[static_cast<std::size_t>(o)]);
      }

  for (const LayoutSpec& type : {LayoutSpec(Layout::i2), LayoutSpec(Layout::i2_s_1x4),
                                 LayoutSpec(Layout::tl1, {64, 96, 32}), LayoutSpec(Layout::tl2, {64, 96, 32})}) {
    std::vector<float> output = output_of(c);
    const Status status = conv2d_quantized(open(), x, bytes_in(type, c), c.w_scales, c.bias, output, {}, dims, type);
    ASSERT_TRUE(status.ok()) << name(type.layout) << ": " << message(status);
    float largest = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_TRUE(std::isfinite(output[i])) << name(type.layout) << ' ' << i;
      largest = std::fmax(largest, std::fabs(output[i] - want[i]));
    }
    EXPECT_LE(largest, 1e-3F) << name(type.layout);
  }
}

TEST_F(QuantizedConv, HasStridePaddingDilationAndGroups) {
  Random random(25);
  const Conv2dParams params{
      .stride_h = 2, .stride_w = 3, .padding = {1, 2, 0, 3}, .dilation_h = 1, .dilation_w = 2, .groups = 2};
  const ConvCase c = conv_case(random,
                               {.images = 3,
                                .height = 11,
                                .width = 13,
                                .filters = {6, 5, 2, 3, 2},
                                .stride_h = 2,
                                .stride_w = 3,
                                .dilation_w = 2,
                                .padding = {1, 2, 0, 3},
                                .math = LinearMath::w2_float,
                                .granularity = Granularity::row()},
                               ConvData::random);
  std::vector<float> output = output_of(c);
  const Status status = conv2d_quantized(open(), floats(c.x), bytes_in(Layout::i2, c), c.w_scales, {}, output, params,
                                         {.input = {3, 10, 11, 13}, .weight = {6, 5, 2, 3}}, Layout::i2);
  ASSERT_TRUE(status.ok()) << message(status);
  const auto* bytes = reinterpret_cast<const std::byte*>(output.data());
  EXPECT_EQ(ConvTruth(c).beyond_bound({bytes, bytes + output.size() * sizeof(float)}), "");
}

TEST_F(QuantizedConv, NamesTheFieldThatIsWrong) {
  struct Call {
    std::vector<float> input = std::vector<float>(std::size_t{2} * 4 * 5 * 5, 1), scales = {1, 2, 3}, bias = {},
                       output = std::vector<float>(std::size_t{2} * 3 * 3 * 3, -99);
    std::vector<std::uint8_t> weights = std::vector<std::uint8_t>(27, 0b01'01'01'01);
    Conv2dParams params = {};
    Conv2dDims dims = {.input = {2, 4, 5, 5}, .weight = {3, 4, 3, 3}};
    LayoutSpec type = Layout::i2;
    Status run() { return conv2d_quantized(open(), input, weights, scales, bias, output, params, dims, type); }
  };
  Call good;
  ASSERT_TRUE(good.run().ok()) << message(good.run());
  EXPECT_EQ(good.output, std::vector<float>(54));
  const auto refused = [](auto change) {
    Call call;
    change(call);
    const Status status = call.run();
    for (const float y : call.output) EXPECT_EQ(y, -99) << message(status);
    return message(status);
  };
  EXPECT_EQ(refused([](Call& c) { c.dims.input[1] = 0; }),
            "invalid_argument: dims.input is [2, 0, 5, 5]; every size must be 1 or more (conv2d_quantized)");
  EXPECT_EQ(refused([](Call& c) { c.dims.weight[2] = -3; }),
            "invalid_argument: dims.weight is [3, 4, -3, 3]; every size must be 1 or more (conv2d_quantized)");
  EXPECT_EQ(refused([](Call& c) { c.params.groups = 0; }),
            "invalid_argument: params.groups is 0; it must be 1 or more (conv2d_quantized)");
  EXPECT_EQ(refused([](Call& c) { c.params.groups = 2; }),
            "invalid_argument: dims.input is [2, 4, 5, 5] and dims.weight [3, 4, 3, 3]: 4 channels in 2 groups of 4 do "
            "not agree (conv2d_quantized)");
  EXPECT_EQ(refused([](Call& c) { c.params.stride_w = 0; }),
            "invalid_argument: stride_w is 0; it must be 1 or more (conv2d)");
  EXPECT_EQ(refused([](Call& c) { c.params.dilation_h = -1; }),
            "invalid_argument: dilation_h is -1; it must be 1 or more (conv2d)");
  EXPECT_EQ(refused([](Call& c) { c.dims.weight[3] = 6; }).find("the filter reaches over 6 pixels of the width"),
            std::size_t{18});
  EXPECT_EQ(refused([](Call& c) { c.params.padding.left = -1; }),
            "invalid_argument: the padding along the width is -1 and 0; it must not be negative (conv2d)");
  EXPECT_EQ(refused([](Call& c) { c.input.pop_back(); }),
            "invalid_argument: input has 199 values, 200 of dims.input [2, 4, 5, 5] are needed (conv2d_quantized)");
  EXPECT_EQ(refused([](Call& c) { c.scales.pop_back(); }),
            "invalid_argument: scales has 2 values, 3 by dims.weight are needed (conv2d_quantized)");
  EXPECT_EQ(refused([](Call& c) { c.bias = {1}; }),
            "invalid_argument: bias has 1 values, 3 by dims.weight are needed (conv2d_quantized)");
  EXPECT_EQ(refused([](Call& c) { c.output.pop_back(); }),
            "invalid_argument: output has 53 values, 54 of [2, 3, 3, 3] are needed (conv2d_quantized)");
  EXPECT_EQ(refused([](Call& c) { c.weights.pop_back(); }),
            "invalid_argument: weights has 26 bytes, 27 of 3 x 36 weights in i2 are needed (conv2d_quantized)");
  EXPECT_EQ(refused([](Call& c) { c.weights[9] = 0b01'11'01'01; }).find("invalid_quantized_value: "), 0U);
  EXPECT_EQ(refused([](Call& c) { c.scales[1] = 0; }).find("invalid_scale: "), 0U);
  EXPECT_EQ(refused([](Call& c) { c.input[3] = NAN; }).find("non_finite: x[0, 0, 0, 3]"), 0U);
  EXPECT_EQ(refused([](Call& c) { c.type = Layout::tl1; }).find("unsupported: "), 0U);
  EXPECT_EQ(refused([](Call& c) { c.type = Layout::tq2_0; }),
            "unsupported: tq2_0 has scales by group:256; filters have one each (conv2d_quantized)");
  EXPECT_EQ(refused([](Call& c) { c.dims.input[0] = std::int64_t{1} << 62; }).find("invalid_argument: "), 0U);
}

}  // namespace
}  // namespace tern::test
