// Weights packed from every layout: the same tiles, scales and checksum as from canonical codes.
#include <gtest/gtest.h>

#include <cstring>

#include "ops/dot/packed_weights.h"
#include "tests/support/layout_cases.h"
#include "tests/support/linear_weights.h"

namespace tern {
namespace {

using test::Codes;
using test::layout_cases;
using test::LayoutCase;
using test::some_scales;
using test::text;

std::vector<std::byte> bytes_of(const PackedWeights& weights) {
  const auto* begin = reinterpret_cast<const std::byte*>(weights.state()->codes);
  return {begin, begin + weights.bytes()};
}

TEST(PackLayouts, GiveWhatCanonicalCodesGive) {
  auto cases = layout_cases();
  // Several pieces of 4 MiB, for several threads.
  cases.push_back({Layout::i2_s_x86_128, 7003, 6912});
  cases.push_back({{Layout::tl2, {160, 96, 32}}, 3200, 8640});
  cases.push_back({Layout::tq2_0, 5003, 6912});
  cases.push_back({Layout::hf_packed, 7004, 2562});
  const Context context = test::open({.threads = 3});
  for (const LayoutCase& c : cases) {
    Codes codes(c.n, c.k);
    codes.fill(test::random_trits(c.n * c.k));
    const auto inside = scales_in(c.spec.layout);
    std::vector<std::uint8_t> bytes(*layout_bytes(c.spec, c.n, c.k));
    std::vector<float> scales = some_scales(c);
    ASSERT_TRUE(export_rows(c.spec, codes.view(), c.n, c.k, {0, c.n}, scales, bytes).ok()) << c.text();
    if (!inside)
      for (std::int64_t row = 0; row < c.n; ++row) scales.push_back(0.1F + static_cast<float>(row));
    const Granularity granularity = inside.value_or(Granularity::row());
    const auto want = PackedWeights::pack(context, codes.view(),
                                          {scales.data(), DType::f32, {static_cast<std::int64_t>(scales.size())}}, c.n,
                                          c.k, granularity);
    ASSERT_TRUE(want.ok()) << c.text() << text(want);
    const auto packed = PackedWeights::pack(context, c.spec, bytes, c.n, c.k,
                                            inside ? std::span<const float>() : scales, Granularity::row());
    ASSERT_TRUE(packed.ok()) << c.text() << text(packed);
    EXPECT_EQ(packed->checksum(), want->checksum()) << c.text();
    EXPECT_EQ(packed->granularity(), granularity);
    EXPECT_EQ(packed->bytes(), want->bytes());
    const auto got = bytes_of(*packed), all = bytes_of(*want);
    EXPECT_TRUE(got == all) << c.text();
  }
}

TEST(PackLayouts, MultiplyAsTheyShould) {
  const std::int64_t n = 64, k = 512;
  const auto trits = test::random_trits(n * k);
  Codes codes(n, k);
  codes.fill(trits);
  std::vector<std::uint8_t> bytes(*layout_bytes(Layout::tq1_0, n, k));
  const std::vector<float> one{1.0F};
  ASSERT_TRUE(export_weights(Layout::tq1_0, codes.view(), n, k, one, Granularity::tensor(), bytes).ok());
  const Context context = test::open({});
  const auto packed = PackedWeights::pack(context, Layout::tq1_0, bytes, n, k);
  ASSERT_TRUE(packed.ok()) << text(packed);
  std::vector<float> x(static_cast<std::size_t>(k)), y(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 37 % 255) - 127);
  const auto layer = BitLinear::make(context, *packed, {.math = LinearMath::w2_float});
  ASSERT_TRUE(layer.ok()) << text(layer);
  ASSERT_TRUE(layer->forward({x.data(), DType::f32, {1, k}}, {y.data(), DType::f32, {1, n}}).ok());
  for (std::int64_t row = 0; row < n; ++row) {
    float sum = 0;  // exact: whole numbers below 2^24
    for (std::int64_t i = 0; i < k; ++i)
      sum += static_cast<float>(trits[static_cast<std::size_t>(row * k + i)]) * x[static_cast<std::size_t>(i)];
    EXPECT_EQ(y[static_cast<std::size_t>(row)], sum) << row;
  }
}

TEST(PackLayouts, RefuseWhatIsWrong) {
  const std::int64_t n = 4096, k = 4096;
  const Context context = test::open({.threads = 2});
  Codes codes(n, k);
  codes.fill(test::random_trits(n * k));
  std::vector<std::uint8_t> bytes(*layout_bytes(Layout::i2_s_x86_128, n, k));
  const std::vector<float> one{0.5F};
  ASSERT_TRUE(export_weights(Layout::i2_s_x86_128, codes.view(), n, k, one, Granularity::tensor(), bytes).ok());
  const auto pack = [&](std::span<const float> scales = {}) {
    return PackedWeights::pack(context, Layout::i2_s_x86_128, bytes, n, k, scales);
  };
  ASSERT_TRUE(pack().ok());
  EXPECT_NE(text(pack(one)).find("has its scales in its bytes; 1 more were given"), std::string::npos);
  // Two bad codes in different pieces and slots: the first one is named.
  bytes[static_cast<std::size_t>(4000 * k / 4)] = 0xFF;
  bytes[static_cast<std::size_t>(3000 * k / 4 + 32)] = 0xFF;
  const auto refused = pack();
  EXPECT_EQ(refused.code(), Code::invalid_quantized_value);
  EXPECT_EQ(refused.error().index, 3000 * k + 128);
  EXPECT_NE(
      text(PackedWeights::pack(context, Layout::i2_s_x86_128, std::span(bytes).first(9), n, k)).find("9 were given"),
      std::string::npos);
  const auto none = PackedWeights::pack(context, Layout::hf_packed, std::span(bytes).first(bytes.size() - 32), n, k);
  EXPECT_NE(text(none).find("have 1 scales, 0 were given"), std::string::npos) << text(none);
  const std::vector<float> bad{-1.0F};
  EXPECT_EQ(
      PackedWeights::pack(context, Layout::hf_packed, std::span(bytes).first(bytes.size() - 32), n, k, bad).code(),
      Code::invalid_scale);
}

TEST(PackLayouts, OfNothing) {
  const Context context = test::open({});
  for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{0, 256}, {4, 0}}) {
    const auto packed = PackedWeights::pack(context, Layout::tq2_0, {}, n, k);
    ASSERT_TRUE(packed.ok()) << text(packed);
    EXPECT_EQ(packed->n(), n);
  }
}

}  // namespace
}  // namespace tern
