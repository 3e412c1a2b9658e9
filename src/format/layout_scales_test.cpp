// Conversion of scales to layouts: what fits, what is refused with which remedy, what is lost if loss is allowed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/layout_cases.h"

namespace tern {
namespace {

using test::Codes;
using test::random_trits;
using test::text;

constexpr std::int64_t kN = 4, kK = 512;

Codes random_codes() {
  Codes codes(kN, kK, 2);
  codes.fill(random_trits(kN * kK));
  return codes;
}
// Sets columns begin .. end - 1 of a row to zero.
void clear(Codes& codes, std::int64_t row, std::int64_t begin, std::int64_t end) {
  for (std::int64_t c = begin; c < end; ++c) {
    std::uint8_t& byte = codes.bytes[static_cast<std::size_t>(row * codes.stride + c / 4)];
    byte = static_cast<std::uint8_t>((byte & ~(3 << (c % 4 * 2))) | 1 << (c % 4 * 2));
  }
}

TEST(LayoutScales, WhoSharesThem) {
  EXPECT_EQ(scales_in(Layout::hf_packed), std::nullopt);
  EXPECT_EQ(scales_in(Layout::i2), std::nullopt);
  EXPECT_EQ(scales_in(Layout::tl2), Granularity::tensor());
  EXPECT_EQ(scales_in(Layout::i2_s_1x4), Granularity::tensor());
  EXPECT_EQ(scales_in(Layout::tq1_0), Granularity::group(256));
}

TEST(LayoutScales, OneOfTheTensorFromEqualOnes) {
  Codes codes = random_codes();
  const std::vector<float> rows(kN, 0.3F), groups(kN * 4, 0.3F), one{0.3F};
  for (const auto& [scales, granularity] : {std::pair(one, Granularity::tensor()), std::pair(rows, Granularity::row()),
                                            std::pair(groups, Granularity::group(128))}) {
    const auto fitted = fit_scales(Layout::i2_s_x86_128, codes.view(), kN, kK, scales, granularity);
    ASSERT_TRUE(fitted.ok()) << text(fitted);
    EXPECT_EQ(fitted->scales, one);
    EXPECT_EQ(fitted->loss.changed, 0);
  }
}

TEST(LayoutScales, OneOfTheTensorFromDifferentOnesIsRefusedOrTheMean) {
  Codes codes = random_codes();
  const std::vector<float> scales{0.5F, 0.5F, 0.25F, 0.75F};
  const auto refused = fit_scales(Layout::tl2, codes.view(), kN, kK, scales, Granularity::row());
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_EQ(refused.error().index, 2);
  EXPECT_NE(text(refused).find("scale 0 is 0.5, scale 2 is 0.25: quantize by tensor, or allow the loss"),
            std::string::npos)
      << text(refused);
  const auto lossy = fit_scales(Layout::tl2, codes.view(), kN, kK, scales, Granularity::row(), Lossy::allow);
  ASSERT_TRUE(lossy.ok());
  EXPECT_EQ(lossy->scales, std::vector<float>{0.5F});
  EXPECT_EQ(lossy->loss.changed, 2);
  EXPECT_EQ(lossy->loss.largest_relative, 1.0);  // 0.25 becomes 0.5
  EXPECT_EQ(lossy->loss.index, 2);
}

TEST(LayoutScales, ScalesOfZerosHaveNoSay) {
  Codes codes = random_codes();
  clear(codes, 2, 0, kK);
  const std::vector<float> scales{0.5F, 0.5F, 0.25F, 0.5F};
  const auto fitted = fit_scales(Layout::i2_s_arm_64, codes.view(), kN, kK, scales, Granularity::row());
  ASSERT_TRUE(fitted.ok()) << text(fitted);
  EXPECT_EQ(fitted->scales, std::vector<float>{0.5F});
  EXPECT_EQ(fitted->loss.changed, 0);
  for (std::int64_t row = 0; row < kN; ++row) clear(codes, row, 0, kK);
  const auto zeros = fit_scales(Layout::i2_s_arm_64, codes.view(), kN, kK, scales, Granularity::row());
  ASSERT_TRUE(zeros.ok());
  EXPECT_EQ(zeros->scales, std::vector<float>{0.5F});
}

TEST(LayoutScales, BlocksFromEveryGranularity) {
  Codes codes = random_codes();
  const std::vector<float> rows{0.5F, 0.25F, 2.0F, 1.5F}, each{0.5F, 0.5F, 0.25F, 0.25F, 2.0F, 2.0F, 1.5F, 1.5F};
  std::vector<float> groups;  // of 64: four to a block
  for (const float scale : each) groups.insert(groups.end(), 4, scale);
  for (const auto& [scales, granularity] :
       {std::pair(rows, Granularity::row()), std::pair(each, Granularity::group(256)),
        std::pair(groups, Granularity::group(64)), std::pair(rows, Granularity::group(512)),
        std::pair(rows, Granularity::group(9999))}) {
    const auto fitted = fit_scales(Layout::tq2_0, codes.view(), kN, kK, scales, granularity);
    ASSERT_TRUE(fitted.ok()) << text(fitted);
    EXPECT_EQ(fitted->scales, each) << name(granularity);
  }
  groups[5] = 0.375F;  // row 0, columns 320 on, in the second block
  const auto refused = fit_scales(Layout::tq1_0, codes.view(), kN, kK, groups, Granularity::group(64));
  EXPECT_EQ(refused.error().index, 5) << text(refused);
  EXPECT_NE(text(refused).find("one scale for 256 columns"), std::string::npos);
  clear(codes, 0, 320, 384);
  EXPECT_TRUE(fit_scales(Layout::tq1_0, codes.view(), kN, kK, groups, Granularity::group(64)).ok());
  clear(codes, 0, 256, 512);
  const auto zero = fit_scales(Layout::tq1_0, codes.view(), kN, kK, groups, Granularity::group(64));
  ASSERT_TRUE(zero.ok());
  EXPECT_EQ(zero->scales[1], 1.0F);
}

TEST(LayoutScales, GroupsThatCrossBlocks) {
  Codes codes = random_codes();
  std::vector<float> scales(kN * 6, 0.5F);  // groups of 96: the third has columns 192 to 287
  EXPECT_TRUE(fit_scales(Layout::tq2_0, codes.view(), kN, kK, scales, Granularity::group(96)).ok());
  scales[2] = 1.0F;
  EXPECT_FALSE(fit_scales(Layout::tq2_0, codes.view(), kN, kK, scales, Granularity::group(96)).ok());
  clear(codes, 0, 192, 256);  // all zeros in block 0, but in block 1 it differs from the next scale, 0.5
  const auto refused = fit_scales(Layout::tq2_0, codes.view(), kN, kK, scales, Granularity::group(96));
  EXPECT_EQ(refused.error().index, 3) << text(refused);
  clear(codes, 0, 256, 288);
  EXPECT_TRUE(fit_scales(Layout::tq2_0, codes.view(), kN, kK, scales, Granularity::group(96)).ok());
}

TEST(LayoutScales, WhatIsNoF16IsRefusedOrRounded) {
  Codes codes = random_codes();
  const std::vector<float> scale{0.1F};
  const auto refused = fit_scales(Layout::tq2_0, codes.view(), kN, kK, scale, Granularity::tensor());
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_NE(
      text(refused).find("stores scales as f16, which cannot hold scale 0, 0.1, exactly: use another layout, or allow"),
      std::string::npos)
      << text(refused);
  const auto lossy = fit_scales(Layout::tq2_0, codes.view(), kN, kK, scale, Granularity::tensor(), Lossy::allow);
  ASSERT_TRUE(lossy.ok());
  EXPECT_EQ(lossy->scales, std::vector<float>(8, 0.0999755859375F));
  EXPECT_EQ(lossy->loss.changed, 1);  // one was given
  EXPECT_NEAR(lossy->loss.largest_relative, 2.4414e-4, 1e-7);
  for (const float far : {70000.0F, 1e-9F}) {
    const std::vector<float> given{far};
    const auto out = fit_scales(Layout::tq1_0, codes.view(), kN, kK, given, Granularity::tensor(), Lossy::allow);
    EXPECT_NE(text(out).find("out of the range of f16"), std::string::npos) << text(out);
  }
  std::vector<std::uint8_t> bytes(*layout_bytes(Layout::tq2_0, kN, kK));
  const std::vector<float> eight(8, 0.1F);
  EXPECT_NE(text(export_rows(Layout::tq2_0, codes.view(), kN, kK, {0, kN}, eight, bytes)).find("fit_scales()"),
            std::string::npos);
}

TEST(LayoutScales, WrongOnesAreRefused) {
  Codes codes = random_codes();
  for (const float bad : {0.0F, -1.0F, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    const std::vector<float> scales{1.0F, 1.0F, bad, 1.0F};
    const auto refused = fit_scales(Layout::tq2_0, codes.view(), kN, kK, scales, Granularity::row());
    EXPECT_EQ(refused.code(), Code::invalid_scale);
    EXPECT_EQ(refused.error().index, 2);
  }
  const std::vector<float> one{1.0F};
  EXPECT_NE(text(fit_scales(Layout::tq2_0, codes.view(), kN, kK, one, Granularity::row())).find("have 4 scales, 1"),
            std::string::npos);
  EXPECT_NE(text(fit_scales(Layout::hf_packed, codes.view(), kN, kK, one, Granularity::tensor())).find("kept apart"),
            std::string::npos);
  EXPECT_EQ(fit_scales(Layout::tq2_0, codes.view(), kN, kK - 1, one, Granularity::tensor()).code(), Code::unsupported);
}

// Tern to tq and back: the same trits, and the same values.
TEST(LayoutScales, ZerosKeepTheirValueThroughTq) {
  Codes codes = random_codes();
  clear(codes, 1, 256, 512);
  for (const Layout layout : {Layout::tq1_0, Layout::tq2_0}) {
    std::vector<std::uint8_t> bytes(*layout_bytes(layout, kN, kK), 0xEE);
    const std::vector<float> scale{0.375F};
    ASSERT_TRUE(export_weights(layout, codes.view(), kN, kK, scale, Granularity::tensor(), bytes).ok());
    const std::size_t block = bytes.size() / 8;
    EXPECT_EQ(bytes[4 * block - 2], 0);  // d of row 1, second block
    EXPECT_EQ(bytes[4 * block - 1], 0);
    Codes back(kN, kK);
    std::vector<float> scales(8);
    ASSERT_TRUE(import_weights(layout, bytes, kN, kK, back.view(), scales).ok());
    EXPECT_TRUE(back.equal(codes));
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(scales[i], i == 3 ? 1.0F : 0.375F);
    // Then to a layout with one scale: the scale of the block of zeros does not matter.
    std::vector<std::uint8_t> i2_s(*layout_bytes(Layout::i2_s_x86_128, kN, kK));
    ASSERT_TRUE(export_weights(Layout::i2_s_x86_128, back.view(), kN, kK, scales, Granularity::group(256), i2_s).ok());
    float stored = 0;
    std::memcpy(&stored, i2_s.data() + kN * kK / 4, sizeof stored);
    EXPECT_EQ(stored, 0.375F);
  }
}

TEST(LayoutScales, ADOfZeroMakesZeros) {
  Codes codes = random_codes(), back(kN, kK, 1);
  const std::vector<float> scale{0.375F};
  for (const Layout layout : {Layout::tq1_0, Layout::tq2_0}) {
    std::vector<std::uint8_t> bytes(*layout_bytes(layout, kN, kK));
    ASSERT_TRUE(export_weights(layout, codes.view(), kN, kK, scale, Granularity::tensor(), bytes).ok());
    const std::size_t block = bytes.size() / 8;
    const auto set_d = [&](std::size_t index, int d) {
      bytes[(index + 1) * block - 2] = static_cast<std::uint8_t>(d & 255);
      bytes[(index + 1) * block - 1] = static_cast<std::uint8_t>(d >> 8);
    };
    std::vector<float> scales(8);
    set_d(5, 0x8000);  // -0
    ASSERT_TRUE(import_weights(layout, bytes, kN, kK, back.view(), scales).ok());
    Codes want = codes;
    clear(want, 2, 256, 512);
    EXPECT_TRUE(back.equal(want));
    EXPECT_EQ(scales[5], 1.0F);
    for (const int bad : {0x7C00, 0x7E00, 0xB800}) {  // infinity, NaN, -0.5
      set_d(6, bad);
      const Status refused = import_weights(layout, bytes, kN, kK, back.view(), scales);
      EXPECT_EQ(refused.code(), Code::invalid_scale);
      EXPECT_EQ(refused.error().index, 6);
    }
  }
}

TEST(LayoutScales, ATrailerOfZeroNeedsZeros) {
  Codes codes = random_codes();
  std::vector<float> scale{0.5F};
  std::vector<std::uint8_t> bytes(*layout_bytes(Layout::i2_s_1x4, kN, kK));
  const auto import_with = [&](float stored) {
    std::memcpy(bytes.data() + kN * kK / 4, &stored, sizeof stored);
    Codes back(kN, kK);
    return import_weights(Layout::i2_s_1x4, bytes, kN, kK, back.view(), scale);
  };
  ASSERT_TRUE(export_weights(Layout::i2_s_1x4, codes.view(), kN, kK, scale, Granularity::tensor(), bytes).ok());
  EXPECT_NE(text(import_with(0.0F)).find("not every trit is 0"), std::string::npos);
  EXPECT_EQ(import_with(-1.0F).code(), Code::invalid_scale);
  EXPECT_EQ(import_with(std::nanf("")).code(), Code::invalid_scale);
  EXPECT_TRUE(import_with(1e-42F).ok());  // a denormal is a valid scale
  EXPECT_EQ(scale[0], 1e-42F);
  for (std::int64_t row = 0; row < kN; ++row) clear(codes, row, 0, kK);
  ASSERT_TRUE(export_weights(Layout::i2_s_1x4, codes.view(), kN, kK, scale, Granularity::tensor(), bytes).ok());
  EXPECT_TRUE(import_with(0.0F).ok());  // as bitnet.cpp writes a tensor of zeros
  EXPECT_EQ(scale[0], 1.0F);
}

}  // namespace
}  // namespace tern
