// Tests every conv2d kernel, the generic loops at every width, and the reference: the bits of the truth in the exact
// mode, its bound in float mode.
#include <gtest/gtest.h>

#include <limits>

#include "ops/dot/generic.h"
#include "tests/support/conv2d_runner.h"

namespace tern {
namespace {

using test::conv_case;
using test::ConvCase;
using test::ConvData;
using test::ConvRun;
using test::ConvTruth;
using test::expect_truth;
using test::NamedKernel;
using test::Random;
using test::run_conv;
using Problem = Conv2d::Problem;

constexpr ImageOrder kOrders[] = {ImageOrder::nchw, ImageOrder::nhwc};
constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16};

// Runs every test with each format of the weights.
class Conv2dOf : public ::testing::TestWithParam<Format> {
 protected:
  static std::vector<NamedKernel> all_kernels() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    auto kernels = test::kernels_and_loops<dot::Loops>("conv2d", GetParam(),
                                                       [](const auto* table) { return conv2d::entry(table); });
    kernels.push_back({"reference", test::reference_kernel("conv2d", GetParam())});
    return kernels;
#else
    return test::listed_conv_kernels(GetParam());
#endif
  }
  static std::vector<LinearMath> maths() {
    if (!is_trits(GetParam())) return {LinearMath::w2a8};
    return {LinearMath::w2a8, LinearMath::w2_float};
  }
};
INSTANTIATE_TEST_SUITE_P(Formats, Conv2dOf, ::testing::Values(Format::i2, Format::b3, Format::s8, Format::s4),
                         [](const auto& param) { return std::string(name(param.param)); });

// --- the grid

// clang-format off
enum Axis : std::size_t {
  kTapsDown, kTapsAcross, kStrideDown, kStrideAcross, kDilationDown, kDilationAcross, kTop, kBottom, kLeft, kRight,
  kGroups, kImages, kChannels, kMap, kXOrder, kYOrder, kX, kY, kActivation, kBias, kResidual, kScales, kData, kGaps,
  kThreads, kAxes
};
// clang-format on

Problem problem_of(const test::GridCase& c, Format format, LinearMath math) {
  constexpr DType kX8[] = {DType::i8, DType::f32, DType::f16, DType::bf16};
  constexpr DType kYs[] = {DType::f32, DType::f16, DType::bf16, DType::i32};
  const auto [height, width] = test::kConvMaps[c[kMap]];
  const bool exact = math == LinearMath::w2a8;
  Problem p{.images = test::kConvImages[c[kImages]],
            .height = height,
            .width = width,
            .filters = {.height = test::kConvTaps[c[kTapsDown]], .width = test::kConvTaps[c[kTapsAcross]]},
            .stride_h = 1 + c[kStrideDown],
            .stride_w = 1 + c[kStrideAcross],
            .dilation_h = 1 + c[kDilationDown],
            .dilation_w = 1 + c[kDilationAcross],
            .padding = {c[kTop], c[kBottom], c[kLeft], c[kRight]},
            .x_dtype = exact ? kX8[c[kX]] : kFloats[c[kX] % 3],
            .x_order = kOrders[c[kXOrder]],
            .y_dtype = exact ? kYs[c[kY]] : kFloats[c[kY] % 3],
            .y_order = kOrders[c[kYOrder]],
            .math = math,
            .format = format,
            .granularity = c[kScales] % 2 == 0 ? Granularity::tensor() : Granularity::row()};
  p.scale_given = exact && p.x_dtype != DType::i8 && c[kScales] >= 2;
  if (p.y_dtype != DType::i32) {
    p.bias = c[kBias] == 1;
    p.residual = c[kResidual] > 0;
    if (exact) p.activation = static_cast<Activation>(c[kActivation]);
  }
  test::set_groups(p.filters, c[kGroups], test::kConvChannels[c[kChannels]], 37);
  return p;
}

// So many filters that the case does not take long.
void limit_filters(Problem& p, double most_products) {
  const double all = test::products_of(p);
  if (all <= most_products) return;
  const auto each = static_cast<double>(p.filters.out_channels / p.filters.groups);
  p.filters.out_channels =
      p.filters.groups * std::max<std::int64_t>(1, static_cast<std::int64_t>(each * most_products / all));
}

std::vector<test::GridCase> grid_cases() {
  test::Grid grid{.sizes = {6, 6, 3, 3, 2, 2, 4, 4, 4, 4, test::kConvGroups, 3, 6, 7, 2, 2, 4, 4, 3, 2, 3, 4, 4, 2, 9}};
  grid.easiest.assign(kAxes, 0);
  for (const Axis padding : {kTop, kBottom, kLeft, kRight}) grid.easiest[padding] = 3;
  grid.easiest[kMap] = 6;
  grid.possible = [](const test::GridCase& c) {
    const auto [height, width] = test::kConvMaps[c[kMap]];
    return (test::kConvTaps[c[kTapsDown]] - 1) * (1 + c[kDilationDown]) < height + c[kTop] + c[kBottom] &&
           (test::kConvTaps[c[kTapsAcross]] - 1) * (1 + c[kDilationAcross]) < width + c[kLeft] + c[kRight];
  };
  grid.cost = [](const test::GridCase& c) { return test::products_of(problem_of(c, Format::i2, LinearMath::w2a8)); };
  return test::pairwise(grid);
}

TEST_P(Conv2dOf, EveryPairOfTheGrid) {
  static const std::vector<test::GridCase> kCases = grid_cases();
  EXPECT_EQ(kCases.size(), 92U);  // the largest product of two axes is 63; a greedy choice needs some more
  const auto kernels = all_kernels();
  for (const LinearMath math : maths())
    for (std::size_t i = 0; i < kCases.size(); ++i) {
      const test::GridCase& c = kCases[i];
      Random random(i);
      Problem p = problem_of(c, GetParam(), math);
      limit_filters(p, 3e6);
      ConvRun how{.threads = 1 + static_cast<int>(c[kThreads]), .in_place = c[kResidual] == 2};
      if (c[kGaps] == 1) {
        how.x_gaps = {1, 5, 3};
        how.y_gaps = {3, 2, 7};
        how.residual_gaps = {2, 9, 1};
      }
      expect_truth(conv_case(random, p, lab::kConvData[c[kData]]), kernels, how);
      if (HasFatalFailure()) return;
    }
}

// --- single properties

// Problems that meet the driver's parts: windows that are gathered and images that are read in place, one chunk and
// several, blocks that are divided down and across, images that fit one block, and depthwise filters.
std::vector<Problem> various(Format format, LinearMath math) {
  std::vector<Problem> all = {
      {.height = 9, .width = 11, .filters = {20, 3, 3, 3}, .padding = Conv2d::Padding::all(1)},
      {.height = 12, .width = 10, .filters = {40, 64, 3, 3}, .stride_h = 2, .padding = {1, 0, 0, 0}},
      {.height = 8, .width = 8, .filters = {33, 128, 1, 1}},
      {.height = 3, .width = 300, .filters = {18, 32, 2, 3, 1}, .padding = {0, 1, 1, 1}},
      {.height = 5, .width = 4, .filters = {17, 600, 3, 2}, .dilation_h = 2, .padding = {2, 2, 0, 1}},
      {.height = 7, .width = 6, .filters = {24, 1, 3, 3, 12}, .padding = Conv2d::Padding::all(2)},
      {.height = 6, .width = 7, .filters = {128, 1, 3, 3, 128}, .padding = {1, 1, 0, 0}},
      {.height = 6, .width = 9, .filters = {34, 40, 3, 3, 2}, .stride_w = 3, .padding = {0, 1, 2, 3}}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    Problem& p = all[i];
    p.images = 1 + static_cast<std::int64_t>(i) % 3;
    p.math = math;
    p.x_dtype = math == LinearMath::w2a8 ? DType::i8 : kFloats[i % 3];
    p.x_order = i == 0 ? ImageOrder::nchw : ImageOrder::nhwc;
    p.y_order = kOrders[i % 2];
    p.format = format;
    p.granularity = i % 2 == 0 ? Granularity::row() : Granularity::tensor();
    p.bias = i % 2 == 0;
  }
  return all;
}

// Inputs on which sums that are too narrow would wrap around, with the bare sum as the result.
TEST_P(Conv2dOf, ExtremeImagesAndFilters) {
  const auto kernels = all_kernels();
  for (Problem p : various(GetParam(), LinearMath::w2a8))
    for (const ConvData data : lab::kConvData)
      for (int repetition = 0; repetition < 2; ++repetition) {
        Random random(static_cast<std::uint64_t>(repetition));
        p.y_dtype = DType::i32;
        p.bias = false;
        expect_truth(conv_case(random, p, data), kernels);
        if (HasFatalFailure()) return;
      }
}

// A filter with as many weights as an int32 sum allows, and one more.
TEST_P(Conv2dOf, TheLargestFilters) {
  const std::int64_t most = dot::max_summed(GetParam());
  Problem p{.height = 1, .width = 1, .filters = {.out_channels = 1, .in_channels = most}, .format = GetParam()};
  p.x_dtype = DType::i8;
  p.y_dtype = DType::i32;
  p.x_order = ImageOrder::nhwc;
  Random random(1);
  expect_truth(conv_case(random, p, ConvData::smallest), test::listed_conv_kernels(GetParam()));
  p.filters.in_channels = most + 1;
  EXPECT_EQ(OpTraits<Conv2d>::facts(p)->refused, "a filter has " + std::to_string(most + 1) + " " +
                                                     std::string(name(GetParam())) + " weights, above " +
                                                     std::to_string(most) + ": an int32 sum might not fit");
}

// Views with gaps along every axis, each alone, and guard pages right behind the last element.
TEST_P(Conv2dOf, GapsAlongEveryAxis) {
  const auto kernels = all_kernels();
  Random random(2);
  for (const LinearMath math : maths())
    for (Problem p : various(GetParam(), math)) {
      p.residual = true;
      const ConvCase c = conv_case(random, p, ConvData::random);
      for (std::size_t axis = 0; axis < 3; ++axis)
        for (const bool of_x : {true, false}) {
          ConvRun how;
          (of_x ? how.x_gaps : how.y_gaps)[axis] = 1;
          how.residual_gaps[2 - axis] = 3;
          expect_truth(c, kernels, how);
          if (HasFatalFailure()) return;
        }
    }
}

TEST_P(Conv2dOf, OneToNineThreadsGiveTheSameBits) {
  Random random(3);
  for (const LinearMath math : maths())
    for (Problem p : various(GetParam(), math)) {
      p.height *= 3;  // more work than one slot takes
      p.width *= 2;
      const ConvCase c = conv_case(random, p, ConvData::random);
      const PackedFilters filters = test::packed_filters(c);
      for (const NamedKernel& kernel : test::runnable_kernels("conv2d", GetParam())) {
        const auto want = run_conv(kernel.entry, c, filters);
        ASSERT_TRUE(want.status.ok()) << want.status.error().str();
        for (int threads = 2; threads <= 9; ++threads)
          ASSERT_TRUE(test::same_bytes(run_conv(kernel.entry, c, filters, {.threads = threads}).y, want.y))
              << kernel.name << ' ' << threads << " threads, " << c.text();
      }
    }
}

// An image's bits do not depend on the images beside it.
TEST_P(Conv2dOf, ImagesAreComputedAsIfAlone) {
  Random random(4);
  for (const LinearMath math : maths())
    for (Problem p : various(GetParam(), math)) {
      p.images = 3;
      const ConvCase all = conv_case(random, p, ConvData::random);
      const PackedFilters filters = test::packed_filters(all);
      for (const NamedKernel& kernel : test::runnable_kernels("conv2d", GetParam())) {
        const auto want = run_conv(kernel.entry, all, filters);
        for (std::size_t i = 0; i < 3; ++i) {
          ConvCase one = all;
          one.problem.images = 1;
          const std::size_t x_bytes = all.x.size() / 3, y_bytes = want.y.size() / 3;
          one.x.assign(all.x.begin() + static_cast<std::ptrdiff_t>(i * x_bytes),
                       all.x.begin() + static_cast<std::ptrdiff_t>((i + 1) * x_bytes));
          if (!all.x_scales.empty()) one.x_scales = {all.x_scales[i]};
          ASSERT_TRUE(std::ranges::equal(run_conv(kernel.entry, one, filters).y,
                                         std::span(want.y).subspan(i * y_bytes, y_bytes)))
              << kernel.name << " image " << i << ", " << all.text();
        }
      }
    }
}

TEST_P(Conv2dOf, ResidualMayBeTheOutput) {
  const auto kernels = all_kernels();
  Random random(5);
  for (const LinearMath math : maths())
    for (Problem p : various(GetParam(), math))
      for (const DType y : kFloats) {
        p.residual = true;
        p.y_dtype = y;
        expect_truth(conv_case(random, p, ConvData::random), kernels, {.y_gaps = {1, 0, 2}, .in_place = true});
        if (HasFatalFailure()) return;
      }
}

TEST_P(Conv2dOf, OneScaleForAllImages) {
  const auto kernels = all_kernels();
  Random random(6);
  for (const DType x : {DType::i8, DType::f32, DType::bf16}) {
    Problem p = various(GetParam(), LinearMath::w2a8)[0];
    p.images = 3;
    p.x_dtype = x;
    p.scale_given = x != DType::i8;
    ConvCase c = conv_case(random, p, ConvData::random);
    std::ranges::fill(c.x_scales, c.x_scales[0]);
    expect_truth(c, kernels, {.one_scale = true});
  }
}

// Given scales that make values of an image too large for int8, or none, or all: they become -128 and 127.
TEST_P(Conv2dOf, GivenScalesClip) {
  const auto kernels = all_kernels();
  Random random(9);
  for (const NonFinite policy : {NonFinite::reject, NonFinite::saturate})
    for (Problem p : various(GetParam(), LinearMath::w2a8)) {
      p.images = 3;
      p.x_dtype = kFloats[p.width % 3];
      p.scale_given = true;
      p.non_finite = policy;
      ConvCase c = conv_case(random, p, ConvData::random);
      c.x_scales = {200.0F, 3.5F, 1e30F};
      if (policy == NonFinite::saturate)
        write_element(c.x.data(), p.x_dtype, 5, -std::numeric_limits<double>::infinity());
      expect_truth(c, kernels, {.threads = 2});
      if (HasFatalFailure()) return;
    }
}

// --- what is not finite

// The lowest index in the order of the axes, whatever the order in memory and of the threads.
TEST_P(Conv2dOf, RefusesNonFiniteImages) {
  const auto kernels = all_kernels();
  Random random(7);
  for (const LinearMath math : maths())
    for (Problem p : various(GetParam(), math)) {
      p.x_dtype = kFloats[p.width % 3];
      p.images = 2;
      ConvCase c = conv_case(random, p, ConvData::random);
      const auto count = static_cast<std::int64_t>(c.x.size() / size_of(p.x_dtype));
      const std::int64_t first = count / 2 + random.below(count / 2);
      write_element(c.x.data(), p.x_dtype, count - 1, -std::numeric_limits<double>::infinity());
      write_element(c.x.data(), p.x_dtype, first, std::numeric_limits<double>::quiet_NaN());
      const PackedFilters filters = test::packed_filters(c);
      for (const NamedKernel& kernel : kernels)
        for (const int threads : {1, 4}) {
          const auto got = run_conv(kernel.entry, c, filters, {.threads = threads, .x_gaps = {1, 2, 3}});
          ASSERT_EQ(got.status.code(), Code::non_finite) << kernel.name << ' ' << c.text();
          EXPECT_EQ(got.status.error().index, first) << kernel.name << ' ' << c.text();
          EXPECT_TRUE(std::ranges::all_of(got.y, [](std::byte b) { return b == std::byte{0xEE}; })) << kernel.name;
        }
      if (math == LinearMath::w2_float) continue;
      c.problem.non_finite = NonFinite::saturate;
      expect_truth(c, kernels, {.threads = 3});
      if (HasFatalFailure()) return;
    }
}

// NaN counts as 0 and an infinity as the largest finite value of x's type.
TEST_P(Conv2dOf, SaturatesFloatImages) {
  if (!is_trits(GetParam())) GTEST_SKIP() << "weights of more bits meet int8 alone";
  const auto kernels = all_kernels();
  Random random(8);
  for (Problem p : various(GetParam(), LinearMath::w2_float)) {
    p.x_dtype = DType::f16;  // its largest value is far from f32's
    p.non_finite = NonFinite::saturate;
    ConvCase c = conv_case(random, p, ConvData::random);
    const auto count = static_cast<std::int64_t>(c.x.size() / 2);
    for (const double v : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()})
      write_element(c.x.data(), p.x_dtype, random.below(count), v);
    c.problem.y_dtype = DType::f32;
    expect_truth(c, kernels);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tern
