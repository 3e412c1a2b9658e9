// Every problem and argument that conv2d refuses, and the words of its error.
#include <gtest/gtest.h>

#include <limits>

#include "device/isa.h"
#include "plan/select.h"
#include "tests/support/conv2d_runner.h"

namespace tern {
namespace {

using test::conv_case;
using test::ConvCase;
using test::ConvData;
using test::Random;
using Problem = Conv2d::Problem;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

// --- problems

const Problem kGood = {.images = 2,
                       .height = 6,
                       .width = 7,
                       .filters = {8, 4, 3, 3},
                       .padding = Conv2d::Padding::all(1),
                       .x_dtype = DType::i8};

// Why a problem is refused; empty if it is not.
std::string refusal(const Problem& p) {
  const auto facts = OpTraits<Conv2d>::facts(p);
  return facts.ok() ? facts->refused : facts.error().message;
}
template <class Change>
std::string with(Change change) {
  Problem p = kGood;
  change(p);
  return refusal(p);
}

TEST(Conv2dRefuses, SizesThatMakeNoSense) {
  EXPECT_EQ(refusal(kGood), "");
  EXPECT_EQ(with([](Problem& p) { p.images = -1; }), "images is -1; it must not be negative");
  EXPECT_EQ(with([](Problem& p) { p.height = 0; }), "height is 0; it must be 1 or more");
  EXPECT_EQ(with([](Problem& p) { p.width = -5; }), "width is -5; it must be 1 or more");
  EXPECT_EQ(with([](Problem& p) { p.stride_h = 0; }), "stride_h is 0; it must be 1 or more");
  EXPECT_EQ(with([](Problem& p) { p.stride_w = -1; }), "stride_w is -1; it must be 1 or more");
  EXPECT_EQ(with([](Problem& p) { p.dilation_h = -2; }), "dilation_h is -2; it must be 1 or more");
  EXPECT_EQ(with([](Problem& p) { p.dilation_w = 0; }), "dilation_w is 0; it must be 1 or more");
  EXPECT_EQ(with([](Problem& p) { p.padding.left = -1; }),
            "the padding along the width is -1 and 1; it must not be negative");
  EXPECT_EQ(with([](Problem& p) { p.padding.bottom = -3; }),
            "the padding along the height is 1 and -3; it must not be negative");
}

TEST(Conv2dRefuses, FiltersLargerThanThePaddedImage) {
  EXPECT_EQ(with([](Problem& p) { p.filters.height = 8; }), "");
  EXPECT_EQ(with([](Problem& p) { p.filters.height = 9; }),
            "the filter reaches over 9 pixels of the height, the padded image has 8; pad more, or use a smaller filter "
            "or dilation");
  EXPECT_EQ(with([](Problem& p) { p.dilation_w = 4; }), "");
  EXPECT_EQ(with([](Problem& p) { p.dilation_w = 5; }),
            "the filter reaches over 11 pixels of the width, the padded image has 9; pad more, or use a smaller filter "
            "or dilation");
  EXPECT_EQ(with([](Problem& p) {
              p.height = p.width = 1;
              p.padding = {};
            }),
            "the filter reaches over 3 pixels of the height, the padded image has 1; pad more, or use a smaller filter "
            "or dilation");
}

TEST(Conv2dRefuses, SizesWhoseProductsOverflow) {
  constexpr std::int64_t k2To30 = std::int64_t{1} << 30;
  EXPECT_EQ(with([](Problem& p) { p.height = kHuge; }), "height is 9223372036854775807; 2^30 is the most");
  EXPECT_EQ(with([](Problem& p) { p.stride_w = kHuge; }), "stride_w is 9223372036854775807; 2^30 is the most");
  EXPECT_EQ(with([](Problem& p) { p.dilation_h = kHuge / 2; }), "dilation_h is 4611686018427387903; 2^30 is the most");
  EXPECT_EQ(with([](Problem& p) { p.padding.bottom = kHuge - 3; }),
            "the padding is 9223372036854775804; 2^30 is the most");
  EXPECT_EQ(with([](Problem& p) { p.padding.right = k2To30 + 1; }), "the padding is 1073741825; 2^30 is the most");
  EXPECT_EQ(with([](Problem& p) {  // the largest that each of these may be
              p.dilation_h = p.dilation_w = k2To30;
            }),
            "the filter reaches over 2147483649 pixels of the height, the padded image has 8; pad more, or use a "
            "smaller filter or dilation");
  EXPECT_EQ(with([](Problem& p) { p.padding = Conv2d::Padding::all(k2To30); }),
            "x with its padding: 2 images of 4 channels and 2147483654 x 2147483655 pixels are more than 2^63 bytes");
  // A stride as wide as the padding leaves two results, but the pixels between them are staged.
  EXPECT_EQ(with([](Problem& p) {
              p.padding.left = k2To30;
              p.stride_w = k2To30;
            }),
            "x with its padding has 4 channels of 8 x 1073741832 pixels; 2^30 are the most of each");
  EXPECT_EQ(with([](Problem& p) {
              p.height = 1 << 15;
              p.width = (1 << 15) + 1;
            }),
            "x with its padding has 4 channels of 32770 x 32771 pixels; 2^30 are the most of each");
  EXPECT_EQ(with([](Problem& p) { p.images = kHuge; }),
            "x with its padding: 9223372036854775807 images of 4 channels and 8 x 9 pixels are more than 2^63 bytes");
  EXPECT_EQ(with([](Problem& p) { p.filters.out_channels = k2To30 + 1; }),
            "filters of [1073741825, 4, 3, 3] in 1 groups: that is more than 2^30 along an axis, or 2^50 weights");
  EXPECT_EQ(with([](Problem& p) {
              p.filters = {1 << 20, 1 << 20, 1 << 10, 1 << 10};
            }),
            "filters of [1048576, 1048576, 1024, 1024] in 1 groups: that is more than 2^30 along an axis, or 2^50 "
            "weights");
  EXPECT_EQ(with([](Problem& p) {
              p.filters = {kHuge, kHuge, kHuge, kHuge};
            }),
            "filters of [9223372036854775807, 9223372036854775807, 9223372036854775807, 9223372036854775807] in 1 "
            "groups: that is more than 2^30 along an axis, or 2^50 weights");
}

TEST(Conv2dRefuses, FiltersThatCannotBe) {
  EXPECT_EQ(with([](Problem& p) { p.filters.groups = 3; }),
            "filters of [8, 4, 3, 3] in 3 groups: the groups do not divide the output channels");
  EXPECT_EQ(with([](Problem& p) { p.filters.groups = 16; }),
            "filters of [8, 4, 3, 3] in 16 groups: the groups do not divide the output channels");
  for (std::int64_t FilterShape::*size : {&FilterShape::out_channels, &FilterShape::in_channels, &FilterShape::height,
                                          &FilterShape::width, &FilterShape::groups})
    for (const std::int64_t wrong : {0, -1})
      EXPECT_NE(with([&](Problem& p) { p.filters.*size = wrong; }).find("every size must be 1 or more"),
                std::string::npos);
  EXPECT_EQ(with([](Problem& p) { p.format = Format::s2; }), "filters are i2, b3, s8 or s4, not s2");
  EXPECT_EQ(with([](Problem& p) { p.granularity = Granularity::group(4); }),
            "filters have one scale for all or one each, not scales by group:4");
}

TEST(Conv2dRefuses, FiltersWithTooManyWeights) {
  const auto of = [](Format format, std::int64_t channels) {
    return with([&](Problem& p) {
      p.format = format;
      p.filters = {1, channels, 1, 1};
    });
  };
  EXPECT_EQ(of(Format::i2, (1 << 24) - 1), "");
  EXPECT_EQ(of(Format::i2, 1 << 24), "a filter has 16777216 i2 weights, above 16777215: an int32 sum might not fit");
  EXPECT_EQ(of(Format::b3, (1 << 24) - 1), "");
  EXPECT_EQ(of(Format::b3, 1 << 24), "a filter has 16777216 b3 weights, above 16777215: an int32 sum might not fit");
  EXPECT_EQ(of(Format::s8, (1 << 17) - 1), "");
  EXPECT_EQ(of(Format::s8, 1 << 17), "a filter has 131072 s8 weights, above 131071: an int32 sum might not fit");
  EXPECT_EQ(of(Format::s4, (1 << 21) - 1), "");
  EXPECT_EQ(of(Format::s4, 1 << 21), "a filter has 2097152 s4 weights, above 2097151: an int32 sum might not fit");
  // The taps count, too; the channels of other groups do not.
  EXPECT_NE(with([](Problem& p) {
              p.format = Format::s8;
              p.filters = {1, 1 << 14, 8, 1};
            }),
            "");
  EXPECT_EQ(with([](Problem& p) {
              p.format = Format::s8;
              p.filters = {2, (1 << 17) - 1, 1, 1, 2};
            }),
            "");
}

TEST(Conv2dRefuses, TypesAndModesThatDoNotGoTogether) {
  EXPECT_EQ(with([](Problem& p) { p.y_dtype = DType::i8; }), "y cannot be i8; it is f32, f16, bf16 or i32");
  EXPECT_EQ(with([](Problem& p) { p.y_dtype = DType::f64; }), "y cannot be f64; it is f32, f16, bf16 or i32");
  EXPECT_EQ(with([](Problem& p) { p.math = LinearMath::w2_float; }),
            "x is i8, which w2_float does not take; it is for f32, f16 and bf16");
  for (const Format format : {Format::s8, Format::s4})
    EXPECT_EQ(with([&](Problem& p) {
                p.math = LinearMath::w2_float;
                p.x_dtype = DType::f32;
                p.format = format;
              }),
              std::string(name(format)) + " weights meet int8 activations; w2_float is for i2 and b3");
  EXPECT_EQ(with([](Problem& p) { p.scale_given = true; }),
            "scale_given is for images of floats in w2a8, not for i8 in w2a8");
  EXPECT_EQ(with([](Problem& p) {
              p.scale_given = true;
              p.x_dtype = DType::f16;
              p.math = LinearMath::w2_float;
            }),
            "scale_given is for images of floats in w2a8, not for f16 in w2_float");
  EXPECT_EQ(with([](Problem& p) { p.y_dtype = DType::i32; }), "");
  for (const int part : {0, 1, 2})
    EXPECT_EQ(with([&](Problem& p) {
                p.y_dtype = DType::i32;
                p.bias = part == 0;
                p.residual = part == 1;
                p.activation = part == 2 ? Activation::relu : Activation::none;
              }),
              "i32 is the bare sum; it goes with no bias, activation or residual");
  EXPECT_EQ(with([](Problem& p) {
              p.y_dtype = DType::i32;
              p.x_dtype = DType::f32;
              p.math = LinearMath::w2_float;
            }),
            "i32 is the bare sum of w2a8; ask for f32");
}

// On a machine with a GPU alone every kernel refuses, and each says why.
TEST(Conv2dRefuses, Gpus) {
  const Machine hopper{.device = {DeviceKind::cuda, 0}, .capabilities = cuda_capabilities(9, 0)};
  const auto facts = OpTraits<Conv2d>::facts(kGood);
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->refused_on_gpu, "conv2d has no kernels for GPUs yet; use a context of the CPU");
  const auto selection = select_kernel(kernel_list(), *facts, hopper, Options{}, {});
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->kernel, nullptr);
  EXPECT_FALSE(selection->explanation.rejections.empty());
  for (const Rejection& rejection : selection->explanation.rejections)
    EXPECT_FALSE(rejection.reason.empty()) << rejection.kernel;
}

// --- arguments

class Conv2dBind : public testing::Test {
 protected:
  Conv2dBind() {
    problem = kGood;
    problem.granularity = Granularity::row();
    problem.bias = problem.residual = true;
    Random random(14);
    made = conv_case(random, problem, ConvData::random);
    args = {.x = {made.x.data(), DType::i8, made.x_shape()},
            .x_scales = {made.x_scales.data(), DType::f32, {2}},
            .filters = test::packed_filters(made),
            .bias = {made.bias.data(), DType::f32, {8}},
            .residual = {made.residual.data(), DType::f32, made.y_shape()},
            .y = {y.data(), DType::f32, made.y_shape()}};
  }
  // Expects an error that contains the words.
  void refused(std::string_view words, Code code = Code::invalid_argument) const {
    const auto params = OpTraits<Conv2d>::bind(problem, args);
    ASSERT_FALSE(params.ok()) << "expected: " << words;
    EXPECT_EQ(params.error().code, code);
    EXPECT_NE(params.error().message.find(words), std::string::npos)
        << '"' << params.error().message << "\" lacks \"" << words << '"';
  }
  void accepted() const {
    const auto params = OpTraits<Conv2d>::bind(problem, args);
    EXPECT_TRUE(params.ok()) << params.error().str();
  }
  // The fixture's filters with something changed.
  [[nodiscard]] PackedFilters filters_of(const Problem& other) const {
    Random random(15);
    return test::packed_filters(conv_case(random, other, ConvData::random));
  }
  Problem problem;
  ConvCase made;
  std::vector<float> y = std::vector<float>(2 * 8 * 6 * 7 + 100);
  Conv2d::Args args;
};

TEST_F(Conv2dBind, Images) {
  accepted();
  args.x = {made.x.data(), DType::i8, {2, 4, 42}};
  refused("x is [2, 4, 42]; images have four axes");
  args.x = {made.x.data(), DType::i8, {2, 3, 6, 7}};
  refused("x is [2, 3, 6, 7]: 252 elements, the problem needs 336");
  args.x = {made.x.data(), DType::i8, {2, 6, 7, 4}};  // the other order
  refused("x is [2, 6, 7, 4], the problem says [2, 4, 6, 7]");
  args.x = {made.x.data(), DType::i8, {3, 4, 6, 7}};
  refused("x has 3 images, the plan was made for up to 2");
  args.x = {y.data(), DType::f32, {2, 4, 6, 7}};
  refused("x is f32, the problem says i8");
  args.x = {nullptr, DType::i8, {2, 4, 6, 7}};
  refused("x is null");
  args.x = {made.x.data(), DType::i8, {1, 4, 6, 7}};
  refused("y is [2, 8, 6, 7]: 672 elements, the problem needs 336");
  args.x = {made.x.data(), DType::i8, {2, 4, 6, 7}, {168, 42, 1, 6}, {}};
  refused("x has stride 6 along its last axis; make it contiguous there first");
  args.x = {made.x.data(), DType::i8, {2, 4, 6, 7}, {168, -42, 7, 1}, {}};
  refused("x has the negative stride -42");
}

TEST_F(Conv2dBind, Results) {
  args.y = {y.data(), DType::f16, made.y_shape()};
  refused("y is f16, the problem says f32");
  args.y = {y.data(), DType::f32, {2, 8, 42}};
  refused("y is [2, 8, 42], the problem says [2, 8, 6, 7]");
  args.y = {nullptr, DType::f32, made.y_shape()};
  refused("y is null");
  args.y = {y.data(), DType::f32, made.y_shape(), {336, 42, 6, 1}, {}};
  refused("y [2, 8, 6, 7] with strides [336, 42, 6, 1] overlaps itself");
  args.y = {y.data(), DType::f32, made.y_shape(), {0, 42, 7, 1}, {}};
  refused("y [2, 8, 6, 7] with strides [0, 42, 7, 1] overlaps itself");
}

TEST_F(Conv2dBind, Filters) {
  args.filters = {};
  refused("the filters are empty; PackedFilters::pack makes them");
  Problem other = problem;
  other.filters = {8, 4, 3, 2};
  args.filters = filters_of(other);
  refused("the filters are [8, 4, 3, 2] in 1 groups, the problem says [8, 4, 3, 3] in 1");
  other.filters = {8, 4, 3, 3, 2};
  args.filters = filters_of(other);
  refused("the filters are [8, 4, 3, 3] in 2 groups, the problem says [8, 4, 3, 3] in 1");
  other = problem;
  other.format = Format::b3;
  args.filters = filters_of(other);
  refused("the filters are b3, the problem says i2");
  other = problem;
  other.granularity = Granularity::tensor();
  args.filters = filters_of(other);
  refused("the filters have scales by tensor, the problem says row");
}

TEST_F(Conv2dBind, ScalesAndBias) {
  args.x_scales = {made.x_scales.data(), DType::f32, {1}};
  accepted();
  args.x_scales = {made.x_scales.data(), DType::f32, {3}};
  refused("x_scales is [3]: 3 elements, the problem needs 2");
  args.x_scales = {};
  refused("x_scales");
  for (const float wrong :
       {0.0F, -1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const float scales[] = {1, wrong};
    args.x_scales = {scales, DType::f32, {2}};
    refused("x_scales[1] is ", Code::invalid_scale);
  }
  args.x_scales = {made.x_scales.data(), DType::f32, {2}};
  args.bias = {made.bias.data(), DType::f32, {7}};
  refused("bias is [7]: 7 elements, the problem needs 8");
  args.bias = {};
  refused("bias");
  args.bias = {made.bias.data(), DType::f16, {8}};
  refused("bias is f16, the problem says f32");
  args.bias = {made.bias.data(), DType::f32, {8}};
  args.residual = {made.residual.data(), DType::f32, {2, 6, 7, 8}};
  refused("residual is [2, 6, 7, 8], the problem says [2, 8, 6, 7]");
  args.residual = {made.residual.data(), DType::bf16, made.y_shape()};
  refused("residual is bf16, the problem says f32");
}

// Of each pair one byte is shared, at the end of the one and the beginning of the other.
TEST_F(Conv2dBind, BuffersThatOverlap) {
  auto* const first = reinterpret_cast<std::byte*>(y.data());
  std::byte* const last = first + *element_count(made.y_shape()) * 4 - 1;
  const auto x_bytes = static_cast<std::int64_t>(made.x.size());
  args.x = {last, DType::i8, made.x_shape()};
  refused("x and y overlap; each needs memory of its own");
  args.x = {last + 1, DType::i8, made.x_shape()};
  accepted();
  y.insert(y.begin(), static_cast<std::size_t>(x_bytes / 4), 0.0F);  // room before y
  args.y = {y.data() + x_bytes / 4, DType::f32, made.y_shape()};
  args.x = {reinterpret_cast<std::byte*>(y.data()) + 1, DType::i8, made.x_shape()};
  refused("x and y overlap");
  args.x = {y.data(), DType::i8, made.x_shape()};
  accepted();
  args.x = {made.x.data(), DType::i8, made.x_shape()};

  float* const results = y.data() + x_bytes / 4;
  const std::int64_t count = *element_count(made.y_shape());
  args.x_scales = {results + count - 1, DType::f32, {2}};
  results[count - 1] = results[count] = 1;
  refused("x_scales and y overlap");
  args.x_scales = {made.x_scales.data(), DType::f32, {2}};
  args.bias = {results - 7, DType::f32, {8}};
  refused("bias and y overlap");
  args.bias = {made.bias.data(), DType::f32, {8}};
  args.residual = {results + 1, DType::f32, made.y_shape()};
  refused("residual and y overlap");
  args.residual = {results, DType::f32, made.y_shape()};
  accepted();
  // The same memory with other strides is not y in place.
  args.y = {results, DType::f32, made.y_shape(), {336, 42, 7, 1}, {}};
  accepted();
  args.residual = {results, DType::f32, made.y_shape(), {336, 7, 56, 1}, {}};
  refused("residual and y overlap");
  args.residual = {made.residual.data(), DType::f32, made.y_shape()};
  args.y = {const_cast<std::uint8_t*>(args.filters.state()->weights.state()->codes), DType::f32, made.y_shape()};
  refused("filters and y overlap");
}

// --- filters

TEST(PackedFiltersRefuses, WhatItCannotPack) {
  const Context context = *Context::open({.threads = 1});
  std::vector<std::uint8_t> codes(8 * 9, 0x55);
  const std::vector<float> scales(8, 1.0F);
  const FilterShape shape{8, 4, 3, 3};
  const auto said = [&](const FilterShape& of, std::int64_t n, std::int64_t row, std::int64_t scale_count,
                        const Granularity& granularity = Granularity::row(), Format format = Format::i2) {
    const auto packed = PackedFilters::pack(context, {codes.data(), code_dtype(format), {n, row}},
                                            {scales.data(), DType::f32, {scale_count}}, of, granularity, format);
    return packed.ok() ? "" : packed.error().message;
  };
  EXPECT_EQ(said(shape, 8, 9, 8), "");
  EXPECT_EQ(said({8, 4, 3, 3, 3}, 8, 9, 8),
            "filters of [8, 4, 3, 3] in 3 groups: the groups do not divide the output channels");
  EXPECT_EQ(said({0, 4, 3, 3}, 0, 9, 0), "filters of [0, 4, 3, 3] in 1 groups: every size must be 1 or more");
  EXPECT_NE(said(shape, 7, 9, 8).find("codes is [7, 9]"), std::string::npos);
  EXPECT_NE(said(shape, 8, 8, 8).find("codes is [8, 8]"), std::string::npos);
  EXPECT_NE(said(shape, 8, 9, 1).find("scales is [1]"), std::string::npos);
  EXPECT_NE(said(shape, 8, 9, 8, Granularity::tensor()).find("scales is [8]"), std::string::npos);
  EXPECT_EQ(said(shape, 8, 9, 8, Granularity::group(9)),
            "filters have one scale for all or one each, not scales by group:9");
  EXPECT_EQ(said(shape, 8, 9, 8, Granularity::row(), Format::s2), "filters are i2, b3, s8 or s4, not s2");
  codes[9 * 5 + 3] = 0x5F;  // trits 12 and 13 of filter 5 are 3
  const auto wrong = PackedFilters::pack(context, {codes.data(), DType::u8, {8, 9}}, {scales.data(), DType::f32, {8}},
                                         shape, Granularity::row());
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.code(), Code::invalid_quantized_value);
  EXPECT_NE(wrong.error().message.find("[5, 12]"), std::string::npos) << wrong.error().message;
}

}  // namespace
}  // namespace tern
