// Tests of the C ABI's layouts: the bytes of C++ there and back, and refusals by name.
#include "api/c_test.h"
#include "tern/layout.h"

namespace tern::c_test {
namespace {

constexpr std::int64_t kN = 32, kK = 64, kLine = kK / 4;
constexpr std::size_t kBytes = kN * kLine;

std::vector<std::uint8_t> make_codes() {
  std::vector<std::uint8_t> codes(kBytes);
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::uint8_t>(i % 3 | i / 3 % 3 << 2 | i / 9 % 3 << 4 | i / 27 % 3 << 6);
  return codes;
}

TEST(CLayouts, GiveTheBytesOfCppAndTakeThemBack) {
  std::size_t size = 0;
  ASSERT_EQ(tern_layout_bytes(TERN_LAYOUT_MS_GPU, kN, kK, &size), TERN_OK);
  ASSERT_EQ(size, kBytes);
  const std::vector<std::uint8_t> codes = make_codes();
  std::vector<std::uint8_t> bytes(kBytes, 0xEE), want(kBytes), back(kBytes, 0xEE);
  const tern_tensor_view from = view_of(codes.data(), TERN_DTYPE_U8, {kN, kLine});
  const tern_tensor_view to = view_of(back.data(), TERN_DTYPE_U8, {kN, kLine});
  ASSERT_EQ(tern_export_codes(TERN_LAYOUT_MS_GPU, &from, kN, kK, bytes.data(), kBytes), TERN_OK)
      << tern_last_error()->text;
  ASSERT_TRUE(export_codes(Layout::ms_gpu, {codes.data(), DType::u8, {kN, kLine}}, kN, kK, want).ok());
  EXPECT_EQ(bytes, want);
  EXPECT_NE(bytes, codes);
  ASSERT_EQ(tern_import_codes(TERN_LAYOUT_MS_GPU, bytes.data(), kBytes, kN, kK, &to), TERN_OK)
      << tern_last_error()->text;
  EXPECT_EQ(back, codes);
}

TEST(CLayouts, RefuseByName) {
  std::vector<std::uint8_t> codes = make_codes(), bytes(kBytes);
  const tern_tensor_view view = view_of(codes.data(), TERN_DTYPE_U8, {kN, kLine});
  std::size_t size = 0;
  EXPECT_FAILS(tern_layout_bytes(TERN_LAYOUT_MS_GPU, 15, kK, &size), TERN_UNSUPPORTED, "n a multiple of 16");
  EXPECT_FAILS(tern_layout_bytes(static_cast<tern_layout>(11), kN, kK, &size), TERN_INVALID_ARGUMENT, "layout is 11");
  EXPECT_FAILS(tern_export_codes(TERN_LAYOUT_MS_GPU, &view, kN, kK, bytes.data(), 7), TERN_INVALID_ARGUMENT,
               "7 were given");
  EXPECT_FAILS(tern_export_codes(TERN_LAYOUT_MS_GPU, &view, kN, kK, nullptr, kBytes), TERN_INVALID_ARGUMENT,
               "bytes is NULL but byte_count is 512");
  EXPECT_FAILS(tern_import_codes(TERN_LAYOUT_MS_GPU, nullptr, 1, kN, kK, &view), TERN_INVALID_ARGUMENT,
               "bytes is NULL but byte_count is 1");
  // Zeros are -2 in that layout.
  EXPECT_FAILS(tern_import_codes(TERN_LAYOUT_MS_GPU, bytes.data(), kBytes, kN, kK, &view), TERN_INVALID_QUANTIZED_VALUE,
               "is no trit");
  EXPECT_EQ(tern_last_error()->index, 0);
  codes = make_codes();  // unspecified since that
  codes[kLine + 2] |= 0b11'00'00;
  EXPECT_FAILS(tern_export_codes(TERN_LAYOUT_MS_GPU, &view, kN, kK, bytes.data(), kBytes), TERN_INVALID_QUANTIZED_VALUE,
               "codes[1, 10]");
  EXPECT_EQ(tern_last_error()->index, kK + 10);
}

TEST(CLayouts, HaveWords) {
  tern_layout layout = static_cast<tern_layout>(7);
  EXPECT_EQ(tern_layout_parse("ms_gpu", &layout), TERN_OK);
  EXPECT_EQ(layout, TERN_LAYOUT_MS_GPU);
  EXPECT_STREQ(tern_layout_name(layout), "ms_gpu");
  EXPECT_STREQ(tern_layout_name(static_cast<tern_layout>(11)), "unknown");
  EXPECT_FAILS(tern_layout_parse("ms_cpu", &layout), TERN_INVALID_ARGUMENT, "ms_cpu");
}

}  // namespace
}  // namespace tern::c_test
