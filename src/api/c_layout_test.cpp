// Tests of the C ABI's layouts: the bytes of C++ there and back, and refusals by name.
#include <algorithm>

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
  EXPECT_FAILS(tern_layout_bytes(static_cast<tern_layout>(99), kN, kK, &size), TERN_INVALID_ARGUMENT, "layout is 99");
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
  std::ranges::copy(make_codes(), codes.begin());  // the failed import left them unspecified
  codes[kLine + 2] |= 0b11'00'00;
  EXPECT_FAILS(tern_export_codes(TERN_LAYOUT_MS_GPU, &view, kN, kK, bytes.data(), kBytes), TERN_INVALID_QUANTIZED_VALUE,
               "codes[1, 10]");
  EXPECT_EQ(tern_last_error()->index, kK + 10);
}

// tl2 has everything that a layout may have: tiles, a scale after the codes, padding.
struct Tl2 {
  static constexpr std::int64_t kN = 64, kK = 320;
  tern_layout_spec spec = TERN_LAYOUT_SPEC_INIT;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> bytes;
  float scale = 0.3F;

  Tl2() : codes(kN * kK / 4) {
    spec.layout = TERN_LAYOUT_TL2;
    spec.tile_rows = 32;
    spec.tile_columns = 96;
    spec.block_rows = 32;
    for (std::size_t i = 0; i < codes.size(); ++i)
      codes[i] = static_cast<std::uint8_t>(i % 3 | i / 3 % 3 << 2 | i / 9 % 3 << 4 | i / 27 % 3 << 6);
    tern_layout_size size = TERN_LAYOUT_SIZE_INIT;
    EXPECT_EQ(tern_layout_get_size(&spec, kN, kK, &size), TERN_OK);
    EXPECT_EQ(size.row_block, 32);
    EXPECT_EQ(size.scale_count, 1);
    bytes.assign(size.bytes, 0xEE);
  }
  tern_tensor_view view(std::vector<std::uint8_t>& rows) const {
    return view_of(rows.data(), TERN_DTYPE_U8, {static_cast<std::int64_t>(rows.size()) / (kK / 4), kK / 4});
  }
};

constexpr tern_granularity kByTensor = {TERN_GRANULARITY_TENSOR, 0};

TEST(CLayouts, CarryScalesAndTiles) {
  Tl2 w;
  const tern_tensor_view from = w.view(w.codes);
  tern_scale_loss loss = TERN_SCALE_LOSS_INIT;
  ASSERT_EQ(
      tern_export_weights(&w.spec, &from, w.kN, w.kK, &w.scale, 1, kByTensor, 0, w.bytes.data(), w.bytes.size(), &loss),
      TERN_OK)
      << tern_last_error()->text;
  EXPECT_EQ(loss.changed, 0);
  EXPECT_EQ(loss.index, -1);
  std::vector<std::uint8_t> want(w.bytes.size());
  const std::vector<float> scales{w.scale};
  ASSERT_TRUE(export_weights({Layout::tl2, {32, 96, 32}}, {w.codes.data(), DType::u8, {w.kN, w.kK / 4}}, w.kN, w.kK,
                             scales, Granularity::tensor(), want)
                  .ok());
  EXPECT_EQ(w.bytes, want);
  std::vector<std::uint8_t> back(w.codes.size(), 0xEE), half(w.codes.size() / 2), again(w.bytes.size());
  const tern_tensor_view to = w.view(back), to_half = w.view(half);
  float scale = 0;
  ASSERT_EQ(tern_import_weights(&w.spec, w.bytes.data(), w.bytes.size(), w.kN, w.kK, &to, &scale, 1), TERN_OK);
  EXPECT_EQ(back, w.codes);
  EXPECT_EQ(scale, w.scale);
  for (std::int64_t row = 0; row < w.kN; row += 32) {
    ASSERT_EQ(tern_import_rows(&w.spec, w.bytes.data(), w.bytes.size(), w.kN, w.kK, row, 32, &to_half, &scale, 1),
              TERN_OK);
    ASSERT_EQ(tern_export_rows(&w.spec, &to_half, w.kN, w.kK, row, 32, &scale, 1, again.data(), again.size()), TERN_OK);
  }
  EXPECT_EQ(again, w.bytes);
  EXPECT_FAILS(tern_import_rows(&w.spec, w.bytes.data(), w.bytes.size(), w.kN, w.kK, 16, 32, &to_half, &scale, 1),
               TERN_INVALID_ARGUMENT, "blocks of 32");
  EXPECT_FAILS(tern_import_weights(&w.spec, w.bytes.data(), w.bytes.size(), w.kN, w.kK, &to, nullptr, 1),
               TERN_INVALID_ARGUMENT, "scales is NULL but scale_count is 1");
}

TEST(CLayouts, FitScales) {
  Tl2 w;
  const tern_tensor_view from = w.view(w.codes);
  std::vector<float> rows(w.kN, 0.5F);
  rows[7] = 0.25F;
  float one = 0;
  tern_scale_loss loss = TERN_SCALE_LOSS_INIT;
  EXPECT_FAILS(tern_fit_scales(TERN_LAYOUT_TL2, &from, w.kN, w.kK, rows.data(), rows.size(), kByRow, 0, &one, 1, &loss),
               TERN_UNSUPPORTED, "allow the loss");
  EXPECT_EQ(tern_last_error()->index, 7);
  EXPECT_EQ(tern_fit_scales(TERN_LAYOUT_TL2, &from, w.kN, w.kK, rows.data(), rows.size(), kByRow, 1, &one, 1, &loss),
            TERN_OK);
  EXPECT_EQ(one, 0.49609375F);
  EXPECT_EQ(loss.changed, w.kN);
  EXPECT_EQ(loss.index, 7);
  EXPECT_FAILS(
      tern_fit_scales(TERN_LAYOUT_TL2, &from, w.kN, w.kK, rows.data(), rows.size(), kByRow, 1, rows.data(), 2, nullptr),
      TERN_INVALID_ARGUMENT, "out_count is 2, tl2 has 1 scales");
  int32_t inside = -1;
  tern_granularity granularity = kByRow;
  EXPECT_EQ(tern_layout_scales_in(TERN_LAYOUT_TQ1_0, &inside, &granularity), TERN_OK);
  EXPECT_EQ(inside, 1);
  EXPECT_EQ(granularity.group_size, 256);
  EXPECT_EQ(tern_layout_scales_in(TERN_LAYOUT_HF_PACKED, &inside, &granularity), TERN_OK);
  EXPECT_EQ(inside, 0);
}

TEST(CLayouts, ArePacked) {
  Tl2 w;
  const tern_tensor_view from = w.view(w.codes);
  ASSERT_EQ(tern_export_weights(&w.spec, &from, w.kN, w.kK, &w.scale, 1, kByTensor, 0, w.bytes.data(), w.bytes.size(),
                                nullptr),
            TERN_OK);
  const ContextHandle context = open_context();
  const tern_tensor_view scales = view_of(&w.scale, TERN_DTYPE_F32, {1});
  tern_packed_weights *packed = nullptr, *want = nullptr;
  ASSERT_EQ(tern_packed_weights_create_from_layout(context.get(), &w.spec, w.bytes.data(), w.bytes.size(), w.kN, w.kK,
                                                   nullptr, 0, kByTensor, nullptr, 0, &packed),
            TERN_OK)
      << tern_last_error()->text;
  const WeightsHandle packed_handle(packed);
  ASSERT_EQ(tern_packed_weights_create(context.get(), &from, &scales, w.kN, w.kK, kByTensor, TERN_FORMAT_I2, nullptr, 0,
                                       &want),
            TERN_OK);
  const WeightsHandle want_handle(want);
  const tern_packed_weights_info *a = nullptr, *b = nullptr;
  ASSERT_EQ(tern_packed_weights_get_info(packed, &a), TERN_OK);
  ASSERT_EQ(tern_packed_weights_get_info(want, &b), TERN_OK);
  EXPECT_EQ(a->checksum, b->checksum);
  EXPECT_EQ(a->bytes, b->bytes);
  packed = want;
  EXPECT_FAILS(tern_packed_weights_create_from_layout(context.get(), &w.spec, w.bytes.data(), 5, w.kN, w.kK, nullptr, 0,
                                                      kByTensor, nullptr, 0, &packed),
               TERN_INVALID_ARGUMENT, "5 were given");
  EXPECT_EQ(packed, nullptr);
}

TEST(CLayouts, WeighEvidence) {
  std::vector<std::uint8_t> bytes(8 * 192 / 4 + 32, 0x55);
  const float scale = 0.5F;
  std::memcpy(bytes.data() + 8 * 192 / 4, &scale, sizeof scale);
  tern_i2_s_evidence evidence = TERN_I2_S_EVIDENCE_INIT;
  char text[512];
  std::size_t length = 0;
  ASSERT_EQ(tern_weigh_i2_s(bytes.data(), bytes.size(), 8, 192, &evidence, text, sizeof text, &length), TERN_OK);
  EXPECT_EQ(evidence.x86_128_possible, 0);
  EXPECT_EQ(evidence.arm_64_possible, 1);
  EXPECT_EQ(evidence.one_by_four_possible, 1);
  EXPECT_EQ(evidence.scale, 0.5F);
  EXPECT_NE(std::strstr(text, "k a multiple of 128"), nullptr) << text;
  tern_layout layout = TERN_LAYOUT_TL1;
  EXPECT_FAILS(tern_detect_i2_s(bytes.data(), bytes.size(), 8, 192, &layout), TERN_INVALID_ARGUMENT,
               "ReadOptions::i2_s arm_64|1x4");
  bytes.resize(3 * 192 / 4 + 32);
  std::memcpy(bytes.data() + 3 * 192 / 4, &scale, sizeof scale);
  EXPECT_EQ(tern_detect_i2_s(bytes.data(), bytes.size(), 3, 192, &layout), TERN_OK);
  EXPECT_EQ(layout, TERN_LAYOUT_I2_S_ARM_64);

  const std::string config = "[a]\nm = 64\nk = 320\nbm = 32\nbk = 96\nbmm = 32\n";
  tern_layout_spec spec = TERN_LAYOUT_SPEC_INIT;
  spec.layout = TERN_LAYOUT_TL2;
  ASSERT_EQ(tern_kernel_config_tiles(config.data(), config.size(), 64, 320, &spec), TERN_OK);
  EXPECT_EQ(spec.layout, TERN_LAYOUT_TL2);
  EXPECT_EQ(spec.tile_rows, 32);
  EXPECT_EQ(spec.tile_columns, 96);
  EXPECT_EQ(spec.block_rows, 32);
  EXPECT_FAILS(tern_kernel_config_tiles(config.data(), config.size(), 64, 64, &spec), TERN_UNSUPPORTED, "64 x 320");

  const std::string json = R"({"quantization_config": {"linear_class": "bitlinear"}})";
  int32_t divides = -1;
  EXPECT_EQ(tern_weight_scale_divides(json.data(), json.size(), &divides), TERN_OK);
  EXPECT_EQ(divides, 1);
  EXPECT_FAILS(tern_weight_scale_divides("{}", 2, &divides), TERN_UNSUPPORTED, "linear_class");
}

TEST(CLayouts, HaveWords) {
  tern_layout layout = TERN_LAYOUT_TL1;
  EXPECT_EQ(tern_layout_parse("ms_gpu", &layout), TERN_OK);
  EXPECT_EQ(layout, TERN_LAYOUT_MS_GPU);
  EXPECT_STREQ(tern_layout_name(layout), "ms_gpu");
  EXPECT_EQ(tern_layout_parse("i2_s.1x4", &layout), TERN_OK);
  EXPECT_EQ(layout, TERN_LAYOUT_I2_S_1X4);
  EXPECT_STREQ(tern_layout_name(static_cast<tern_layout>(99)), "unknown");
  EXPECT_FAILS(tern_layout_parse("ms_cpu", &layout), TERN_INVALID_ARGUMENT, "ms_cpu");
}

}  // namespace
}  // namespace tern::c_test
