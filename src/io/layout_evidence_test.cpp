// Conclusions from bytes without a format mark: possible orders of i2_s, tiles by shape, the direction of weight_scale.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/support/layout_cases.h"

namespace tern {
namespace {

using test::Codes;
using test::text;

std::vector<std::uint8_t> i2_s_bytes(Layout layout, std::int64_t n, std::int64_t k, float scale = 0.5F) {
  Codes codes(n, k);
  codes.fill(test::random_trits(n * k));
  std::vector<std::uint8_t> bytes(*layout_bytes(layout, n, k));
  const std::vector<float> one{0.5F};
  EXPECT_TRUE(export_weights(layout, codes.view(), n, k, one, Granularity::tensor(), bytes).ok());
  std::memcpy(bytes.data() + n * k / 4, &scale, sizeof scale);
  return bytes;
}

TEST(I2sEvidence, AmbiguousBytesNameTheFlag) {
  const auto bytes = i2_s_bytes(Layout::i2_s_x86_128, 8, 256);
  const auto evidence = weigh_i2_s(bytes, 8, 256);
  ASSERT_TRUE(evidence.ok());
  EXPECT_EQ(evidence->scale, 0.5F);
  ASSERT_EQ(evidence->readings.size(), 3U);
  for (const I2sReading& reading : evidence->readings) EXPECT_TRUE(reading.possible) << reading.why;
  const auto refused = detect_i2_s(bytes, 8, 256);
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(text(refused).find("give ReadOptions::i2_s x86_128|arm_64|1x4"), std::string::npos) << text(refused);
}

TEST(I2sEvidence, TheShapeMayDecide) {
  EXPECT_EQ(*detect_i2_s(i2_s_bytes(Layout::i2_s_arm_64, 3, 192), 3, 192), Layout::i2_s_arm_64);
  EXPECT_EQ(*detect_i2_s(i2_s_bytes(Layout::i2_s_1x4, 8, 100), 8, 100), Layout::i2_s_1x4);
  EXPECT_NE(
      text(detect_i2_s(i2_s_bytes(Layout::i2_s_arm_64, 3, 128), 3, 128)).find("ReadOptions::i2_s x86_128|arm_64 "),
      std::string::npos);
}

TEST(I2sEvidence, CodesAndScalesThatCannotBe) {
  const auto why = [](const std::vector<std::uint8_t>& bytes, std::int64_t n = 8, std::int64_t k = 256) {
    const auto evidence = weigh_i2_s(bytes, n, k);
    EXPECT_TRUE(evidence.ok()) << text(evidence);
    for (const I2sReading& reading : evidence->readings) EXPECT_FALSE(reading.possible);
    const auto refused = detect_i2_s(bytes, n, k);
    EXPECT_EQ(refused.code(), Code::corrupt_file);
    return text(refused);
  };
  auto bytes = i2_s_bytes(Layout::i2_s_x86_128, 8, 256);
  bytes[7] = 0b11'01'11'00;
  bytes[500] |= 0b11;
  EXPECT_NE(why(bytes).find("3 of 2048 codes are 3"), std::string::npos);
  for (const auto& [scale, part] : {std::pair(0.0F, "is 0"),
                                    {-0.5F, "is negative"},
                                    {1e-40F, "is denormal"},
                                    {2e4F, "above 1e4"},
                                    {std::nanf(""), "not finite"},
                                    {HUGE_VALF, "not finite"}})
    EXPECT_NE(why(i2_s_bytes(Layout::i2_s_x86_128, 8, 256, scale)).find(part), std::string::npos) << scale;
  bytes.pop_back();
  EXPECT_NE(why(bytes).find("are 544 bytes, not 543"), std::string::npos) << why(bytes);
  EXPECT_NE(why({}).find("are 544 bytes, not 0"), std::string::npos);
  EXPECT_NE(why(bytes, 3, 7).find("n a multiple of 4"), std::string::npos);
  EXPECT_FALSE(weigh_i2_s(bytes, -1, 7).ok());
}

TEST(KernelConfig, TilesByShape) {
  const auto config = parse_kernel_config(
      "# tiles\n[Kernels_0]\nm = 3200\nK = 8640\r\nBM = 160\nbk=96\nbmm : 32\nother = yes\n\n"
      "[Kernels_1]\nbmm = 64\nbk = 128\nbm = 320\nk = 3200\nm = 3200\n");
  ASSERT_TRUE(config.ok()) << text(config);
  ASSERT_EQ(config->size(), 2U);
  EXPECT_EQ(*tiles_for(*config, 3200, 8640), (LutTiles{160, 96, 32}));
  EXPECT_EQ(*tiles_for(*config, 3200, 3200), (LutTiles{320, 128, 64}));
  EXPECT_NE(text(tiles_for(*config, 2560, 2560)).find("no tiles of 2560 x 2560, only of 3200 x 8640, 3200 x 3200"),
            std::string::npos);
}

TEST(KernelConfig, WhatIsWrongIsNamed) {
  const auto refusal = [](std::string_view config) {
    const auto parsed = parse_kernel_config(config);
    EXPECT_EQ(parsed.code(), Code::corrupt_file) << config;
    return text(parsed);
  };
  const auto has = [](const std::string& message, std::string_view part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const std::string good = "[a]\nm = 32\nk = 64\nbm = 32\nbk = 64\nbmm = 32\n";
  EXPECT_TRUE(parse_kernel_config(good).ok());
  has(refusal(""), "no section");
  has(refusal("m = 3\n"), "line 1 is 'm = 3'");
  has(refusal("[a]\nm = 3\n"), "has no k");
  has(refusal(good + "bmm = 7\n"), "line 7: bmm is given twice");
  has(refusal(good + good), "32 x 64 is given twice");
  for (const char* value : {"", "-1", "0", "3.5", "12x", "99999999999999999999", "\x1b[2J"})
    has(refusal(std::string("[a]\nm = ") + value), "not a whole number above 0");
  EXPECT_EQ(refusal("[a]\nm = \x1b[2J").find('\x1b'), std::string::npos);
  has(refusal("[a]\nwhat\n"), "not a [section] or key = value");
}

TEST(WeightScales, ByTheClassOfLayers) {
  EXPECT_EQ(*weight_scale_of("autobitlinear"), WeightScale::multiplies);
  EXPECT_EQ(*weight_scale_of("bitlinear"), WeightScale::divides);
  EXPECT_NE(text(weight_scale_of("")).find("names no quantization_config.linear_class: give ReadOptions::weight_scale"),
            std::string::npos);
  EXPECT_NE(text(weight_scale_of("other")).find("'other', not autobitlinear or bitlinear"), std::string::npos);
  EXPECT_EQ(name(WeightScale::divides), "divides");
}

TEST(WeightScales, FromConfigJson) {
  EXPECT_EQ(*weight_scale_of_config(R"({"quantization_config": {"linear_class": "autobitlinear"}})"),
            WeightScale::multiplies);
  EXPECT_EQ(*weight_scale_of_config(R"({"a": 1, "quantization_config": {"linear_class": "bitlinear"}})"),
            WeightScale::divides);
  for (const char* absent : {"{}", R"({"quantization_config": 3})", R"({"quantization_config": {}})",
                             R"({"quantization_config": {"linear_class": null}})"})
    EXPECT_EQ(weight_scale_of_config(absent).code(), Code::unsupported) << absent;
  for (const char* broken : {"", "{", "[]", "3", "\xff"})
    EXPECT_EQ(weight_scale_of_config(broken).code(), Code::corrupt_file) << broken;
}

}  // namespace
}  // namespace tern
