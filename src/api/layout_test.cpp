// Other projects' layouts: their bytes as FORMATS of those projects describe them, there and back, and refusals.
#include "tern/layout.h"

#include <gtest/gtest.h>

#include <vector>

#include "format/format.h"
#include "lab/weights.h"

namespace tern {
namespace {

std::vector<std::int8_t> random_trits(std::int64_t count) {
  lab::Random random(5);
  std::vector<std::int8_t> trits(static_cast<std::size_t>(count));
  for (std::int8_t& trit : trits) trit = static_cast<std::int8_t>(random.below(3) - 1);
  return trits;
}

// Rows of i2 codes with a gap between them that nobody may touch.
struct Codes {
  std::int64_t n, k, stride;
  std::vector<std::uint8_t> bytes;
  Codes(std::int64_t n_, std::int64_t k_, std::int64_t gap)
      : n(n_), k(k_), stride(k_ / 4 + gap), bytes(static_cast<std::size_t>(n_ * (k_ / 4 + gap)), 0xEE) {}
  TensorView view() {
    TensorView v(bytes.data(), DType::u8, {n, k / 4});
    v.strides[0] = stride;
    return v;
  }
  void fill(const std::vector<std::int8_t>& trits) {
    for (std::int64_t row = 0; row < n; ++row)
      pack_row(Format::i2, trits.data() + row * k, k, bytes.data() + row * stride);
  }
};

// Microsoft's order said once more, element by element: 16 x 32 tiles along k, then n; inside them runs of 16 columns,
// eight rows below each other, first the left half of the upper eight rows; element e of a run at bit 8 (e % 4) + 2 (e
// / 4).
std::vector<std::uint8_t> ms_gpu_bytes(const std::vector<std::int8_t>& trits, std::int64_t n, std::int64_t k) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(n * k / 4));
  std::size_t run = 0;
  for (std::int64_t row0 = 0; row0 < n; row0 += 16)
    for (std::int64_t column0 = 0; column0 < k; column0 += 32)
      for (const std::int64_t down : {0, 8})
        for (const std::int64_t right : {0, 16})
          for (std::int64_t row = 0; row < 8; ++row, ++run)
            for (std::int64_t e = 0; e < 16; ++e) {
              const auto at = static_cast<std::size_t>((row0 + down + row) * k + column0 + right + e);
              bytes[4 * run + static_cast<std::size_t>(e % 4)] |=
                  static_cast<std::uint8_t>((trits[at] + 2) << (e / 4 * 2));
            }
  return bytes;
}

TEST(Layouts, MicrosoftsGpuBytesThereAndBack) {
  for (const auto& [n, k] :
       {std::pair<std::int64_t, std::int64_t>{16, 32}, {48, 96}, {2560, 64}, {32, 6912}, {0, 32}, {16, 0}}) {
    const auto trits = random_trits(n * k);
    const auto want = ms_gpu_bytes(trits, n, k);
    Codes codes(n, k, 3), back(n, k, 5);
    codes.fill(trits);
    ASSERT_EQ(*layout_bytes(Layout::ms_gpu, n, k), want.size());
    std::vector<std::uint8_t> bytes(want.size(), 0xEE);
    const Status out = export_codes(Layout::ms_gpu, codes.view(), n, k, bytes);
    ASSERT_TRUE(out.ok()) << out.error().str();
    EXPECT_EQ(bytes, want) << n << " x " << k;
    const Status in = import_codes(Layout::ms_gpu, bytes, n, k, back.view());
    ASSERT_TRUE(in.ok()) << in.error().str();
    for (std::int64_t row = 0; row < n; ++row)
      for (std::int64_t i = 0; i < back.stride; ++i)
        ASSERT_EQ(back.bytes[static_cast<std::size_t>(row * back.stride + i)],
                  i < k / 4 ? codes.bytes[static_cast<std::size_t>(row * codes.stride + i)] : 0xEE);
  }
}

TEST(Layouts, CodesThatAreNoTritsAreNamed) {
  const std::int64_t n = 32, k = 64;
  const auto trits = random_trits(n * k);
  const auto good = ms_gpu_bytes(trits, n, k);
  Codes codes(n, k, 0);
  for (const std::int64_t element : {std::int64_t{0}, std::int64_t{5 * k + 17}, n * k - 1}) {
    // -2 is the code 0 there: the bits of one element taken out.
    auto one = trits;
    one[static_cast<std::size_t>(element)] = -2;
    const Status refused = import_codes(Layout::ms_gpu, ms_gpu_bytes(one, n, k), n, k, codes.view());
    ASSERT_EQ(refused.code(), Code::invalid_quantized_value);
    EXPECT_EQ(refused.error().index, element);
    codes.fill(trits);
    codes.bytes[static_cast<std::size_t>(element / 4)] |= static_cast<std::uint8_t>(3 << (element % 4 * 2));
    std::vector<std::uint8_t> bytes(good.size());
    const Status out = export_codes(Layout::ms_gpu, codes.view(), n, k, bytes);
    ASSERT_EQ(out.code(), Code::invalid_quantized_value);
    EXPECT_EQ(out.error().index, element);
  }
}

TEST(Layouts, ShapesAndSizesThatDoNotFitAreRefused) {
  const auto text = [](const Status& status) { return status.ok() ? "" : status.error().str(); };
  EXPECT_NE(text(layout_bytes(Layout::ms_gpu, 15, 32).ok() ? Status() : layout_bytes(Layout::ms_gpu, 15, 32).error())
                .find("holds multiples of 16 x 32, not 15 x 32"),
            std::string::npos);
  EXPECT_EQ(layout_bytes(Layout::ms_gpu, 16, 48).code(), Code::unsupported);
  EXPECT_FALSE(layout_bytes(Layout::ms_gpu, -16, 32).ok());
  EXPECT_FALSE(layout_bytes(Layout::ms_gpu, std::int64_t{1} << 60, std::int64_t{1} << 60).ok());
  Codes codes(16, 32, 0);
  codes.fill(random_trits(512));
  std::vector<std::uint8_t> bytes(128);
  EXPECT_NE(text(export_codes(Layout::ms_gpu, codes.view(), 16, 32, std::span(bytes).first(127)))
                .find("are 128 bytes, 127 were given"),
            std::string::npos);
  EXPECT_NE(text(export_codes(Layout::ms_gpu, codes.view(), 32, 32, bytes)).find("32 x 32"), std::string::npos);
  EXPECT_NE(text(import_codes(Layout::ms_gpu, codes.bytes, 16, 32, codes.view())).find("overlap"), std::string::npos);
  EXPECT_FALSE(import_codes(Layout::ms_gpu, bytes, 16, 32, {}).ok());
  EXPECT_EQ(*parse_layout("ms_gpu"), Layout::ms_gpu);
  EXPECT_FALSE(parse_layout("ms_cpu").ok());
}

}  // namespace
}  // namespace tern
