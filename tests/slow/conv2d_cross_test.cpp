// conv2d with nearly every crossing of filter sizes, strides, dilations, paddings, groups, images, channels and maps,
// and with many random problems: too slow for the usual tests.
#include <gtest/gtest.h>

#include "tests/support/conv2d_runner.h"

namespace tern {
namespace {

using test::conv_case;
using test::ConvRun;
using test::Random;
using ConvProblem = Conv2d::Problem;

constexpr ImageOrder kOrders[] = {ImageOrder::nchw, ImageOrder::nhwc};
constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16};

// Chooses what is not crossed: types, orders, epilogue, scales, the format.
void choose_the_rest(ConvProblem& p, Random& random) {
  const auto some = [&] { return random.below(2) == 0; };
  constexpr Format kFormats[] = {Format::i2, Format::i2, Format::b3, Format::s8, Format::s4};
  p.format = kFormats[random.below(5)];
  p.math = is_trits(p.format) && random.below(4) == 0 ? LinearMath::w2_float : LinearMath::w2a8;
  const bool exact = p.math == LinearMath::w2a8;
  p.x_dtype = exact && random.below(3) != 0 ? DType::i8 : kFloats[random.below(3)];
  p.y_dtype = exact && random.below(4) == 0 ? DType::i32 : kFloats[random.below(3)];
  p.x_order = kOrders[random.below(2)];
  p.y_order = kOrders[random.below(2)];
  p.granularity = some() ? Granularity::tensor() : Granularity::row();
  p.scale_given = exact && p.x_dtype != DType::i8 && some();
  if (p.y_dtype == DType::i32) return;
  p.bias = some();
  p.residual = some();
  if (exact) p.activation = static_cast<Activation>(random.below(3));
}

void expect_truth_of(const ConvProblem& p, Random& random) {
  ConvRun how{.threads = 1 + static_cast<int>(random.below(4)), .in_place = random.below(2) == 0};
  for (std::int64_t& gap : how.x_gaps) gap = random.below(3);
  for (std::int64_t& gap : how.y_gaps) gap = random.below(3);
  expect_truth(conv_case(random, p, lab::kConvData[random.below(4)]), test::listed_conv_kernels(p.format), how);
}

// One test for each size of the filter, so that ctest runs them in parallel.
class Conv2dCross : public testing::TestWithParam<std::int64_t> {};

TEST_P(Conv2dCross, EveryCase) {
  constexpr double kProducts = 400'000;  // of a case: some milliseconds for the truth
  constexpr Conv2d::Padding kPaddings[] = {{}, {1, 1, 1, 1}, {2, 0, 0, 1}, {0, 3, 2, 0}, {3, 2, 3, 1}};
  Random random(static_cast<std::uint64_t>(GetParam()));
  std::int64_t cases = 0, left_out = 0;
  for (const std::int64_t stride : {1, 2, 3})
    for (const std::int64_t dilation : {1, 2})
      for (const Conv2d::Padding& padding : kPaddings)
        for (std::int64_t groups = 0; groups < test::kConvGroups; ++groups)
          for (const std::int64_t images : test::kConvImages)
            for (const std::int64_t channels : test::kConvChannels)
              for (const auto& [height, width] : test::kConvMaps) {
                ConvProblem p{.images = images,
                              .height = height,
                              .width = width,
                              .filters = {.height = GetParam(), .width = GetParam()},
                              .stride_h = stride,
                              .stride_w = stride,
                              .dilation_h = dilation,
                              .dilation_w = dilation,
                              .padding = padding};
                test::set_groups(p.filters, groups, channels, 1 + random.below(20));
                choose_the_rest(p, random);
                if (!Conv2d::output_size(p).ok()) continue;  // the filter is larger than the padded image
                // Large cases have few filters; of those that are too large with one, a twentieth runs.
                while (p.filters.out_channels > p.filters.groups && test::products_of(p) > kProducts)
                  p.filters.out_channels -= p.filters.groups;
                if (test::products_of(p) > kProducts && random.below(20) != 0) {
                  ++left_out;
                  continue;
                }
                ++cases;
                expect_truth_of(p, random);
                if (HasFatalFailure()) return;
              }
  RecordProperty("cases", static_cast<int>(cases));
  RecordProperty("left_out", static_cast<int>(left_out));
  EXPECT_GT(cases, 2000);
}
INSTANTIATE_TEST_SUITE_P(Taps, Conv2dCross, testing::ValuesIn(test::kConvTaps), testing::PrintToStringParamName());

// --- odd problems: filters of one row or column, filters larger than the image, strides and paddings larger than the
// filter, images of one pixel, images that are divided across, filters of several chunks

class Conv2dOdd : public testing::TestWithParam<int> {};

ConvProblem odd_problem(Random& random) {
  const auto one_of = [&](auto... values) {
    const std::int64_t all[] = {values...};
    return all[random.below(std::ssize(all))];
  };
  ConvProblem p{
      .images = one_of(1, 1, 2, 3),
      .height = one_of(1, 1, 2, 3, 1 + random.below(30)),
      .width = one_of(1, 2, 7, 1 + random.below(40), 250 + random.below(300)),
      .filters = {.height = one_of(1, 1, 2, 3, 4, 9), .width = one_of(1, 2, 3, 3, 6, 17)},
      .stride_h = one_of(1, 1, 2, 5, 40),
      .stride_w = one_of(1, 1, 2, 4, 100),
      .dilation_h = one_of(1, 1, 2, 7),
      .dilation_w = one_of(1, 1, 3, 10),
      .padding = {one_of(0, 0, 1, 5, 20), one_of(0, 0, 2, 5, 20), one_of(0, 0, 1, 6, 30), one_of(0, 0, 2, 6, 30)}};
  test::set_groups(p.filters, one_of(0, 0, 0, 1, 2, 3), one_of(1, 2, 8, 16, 17, 63, 64, 100, 127, 128, 300, 600),
                   one_of(1, 2, 15, 16, 17, 33, 70, 130));
  // The image becomes as large as the filter needs.
  p.height += std::max<std::int64_t>(
      0, (p.filters.height - 1) * p.dilation_h + 1 - p.height - p.padding.top - p.padding.bottom);
  p.width +=
      std::max<std::int64_t>(0, (p.filters.width - 1) * p.dilation_w + 1 - p.width - p.padding.left - p.padding.right);
  choose_the_rest(p, random);
  while (p.filters.out_channels > p.filters.groups && test::products_of(p) > 2e6)
    p.filters.out_channels -= p.filters.groups;
  return p;
}

TEST_P(Conv2dOdd, RandomProblems) {
  Random random(1000 + static_cast<std::uint64_t>(GetParam()));
  for (int cases = 0; cases < 1500;) {
    const ConvProblem p = odd_problem(random);
    if (test::products_of(p) > 1e7) continue;
    ++cases;
    expect_truth_of(p, random);
    if (HasFatalFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, Conv2dOdd, testing::Range(0, 4));

}  // namespace
}  // namespace tern
