// Imports and exports the bytes that tools/golden_formats.py made without the library, and compares with PyPI's gguf if
// .venv has it.
#include "tern/layout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/layout_cases.h"
#include "tests/support/test_files.h"

namespace tern {
namespace {

using test::Codes;
constexpr float kScale = 0.7431640625F;

struct Golden {
  const char* file;  // name after "64x256."
  LayoutSpec spec;
  std::int64_t n, k;
};

std::vector<std::uint8_t> bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string golden_path(std::int64_t n, std::int64_t k, const std::string& file) {
  return std::string(TERN_TESTS_DIR) + "/golden/" + std::to_string(n) + "x" + std::to_string(k) + "." + file;
}

class Layouts : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(golden_path(64, 256, "i2"))) GTEST_SKIP() << "the source tree is not here";
  }
};

TEST_F(Layouts, GoldenBytesBothWays) {
  for (const Golden& golden : {Golden{"i2", Layout::i2, 64, 256},
                               {"b3", Layout::b3, 64, 256},
                               {"ms_gpu", Layout::ms_gpu, 64, 256},
                               {"hf_packed", Layout::hf_packed, 64, 256},
                               {"i2_s.x86_128", Layout::i2_s_x86_128, 64, 256},
                               {"i2_s.arm_64", Layout::i2_s_arm_64, 64, 256},
                               {"i2_s.1x4", Layout::i2_s_1x4, 64, 256},
                               {"tl1.32_64_32", {Layout::tl1, {32, 64, 32}}, 64, 256},
                               {"tl1.64_128_32", {Layout::tl1, {64, 128, 32}}, 64, 256},
                               {"tl1.64_64_64", {Layout::tl1, {64, 64, 64}}, 64, 256},
                               {"tl2.32_96_32", {Layout::tl2, {32, 96, 32}}, 64, 256},
                               {"tl2.64_192_32", {Layout::tl2, {64, 192, 32}}, 64, 256},
                               {"tq1_0", Layout::tq1_0, 64, 256},
                               {"tq2_0", Layout::tq2_0, 64, 256},
                               {"tl2.32_96_32", {Layout::tl2, {32, 96, 32}}, 32, 320},
                               {"b3", Layout::b3, 8, 10},
                               {"hf_packed", Layout::hf_packed, 8, 10},
                               {"i2_s.1x4", Layout::i2_s_1x4, 8, 10}}) {
    const auto& [file, spec, n, k] = golden;
    Codes canonical(n, k), back(n, k, 7);
    canonical.bytes = bytes_of_file(golden_path(n, k, "i2"));
    const std::vector<std::uint8_t> want = bytes_of_file(golden_path(n, k, file));
    ASSERT_EQ(want.size(), *layout_bytes(spec, n, k)) << file;

    std::vector<float> scales(static_cast<std::size_t>(*layout_scales(spec, n, k)), -1.0F);
    const Status in = import_weights(spec, want, n, k, back.view(), scales);
    ASSERT_TRUE(in.ok()) << file << in.error().str();
    EXPECT_TRUE(back.equal(canonical)) << file;
    // Rows 1 and n - 2 have blocks of zeros, which store no scale and read as 1.
    for (std::size_t i = 0; i < scales.size(); ++i)
      EXPECT_EQ(scales[i], scales.size() == 64 && (i == 1 || i == 62) ? 1.0F : kScale) << file << i;

    std::vector<std::uint8_t> bytes(want.size(), 0xEE);
    const std::vector<float> one{kScale};
    const auto out = export_weights(spec, canonical.view(), n, k, scales.empty() ? std::span<const float>() : one,
                                    Granularity::tensor(), bytes);
    ASSERT_TRUE(out.ok()) << file << out.error().str();
    EXPECT_EQ(out->changed, 0);
    EXPECT_EQ(bytes, want) << file;
  }
}

// gguf dequantizes our bytes to our values, and quantizes our values to our bytes, bit for bit.
TEST_F(Layouts, GgufWritesTheSameTq) {
  const std::string python = std::string(TERN_TESTS_DIR) + "/../.venv/bin/python3";
  if (std::system(("'" + python + "' -c 'import numpy, gguf' >/dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "there is no .venv with gguf";
  const TempFolder folder;
  const std::int64_t n = 96, k = 1024;
  Codes codes(n, k);
  auto trits = test::random_trits(n * k, 77);
  for (std::int64_t i = 0; i < 256; ++i) trits[static_cast<std::size_t>(5 * k + 512 + i)] = 0;
  codes.fill(trits);
  // A scale for every block, including f16 denormals and the largest f16.
  std::vector<float> scales(static_cast<std::size_t>(n * k / 256));
  for (std::size_t i = 0; i < scales.size(); ++i)
    scales[i] = std::ldexp(static_cast<float>(1 + i * 37 % 2047), static_cast<int>(i % 25) - 24);
  scales[3] = 65504.0F;
  scales[5 * 4 + 2] = 1.0F;
  std::vector<float> values(trits.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(trits[i]) * scales[i / 256];
  write_text(folder / "values", {reinterpret_cast<const char*>(values.data()), 4 * values.size()});
  for (const Layout layout : {Layout::tq1_0, Layout::tq2_0}) {
    std::vector<std::uint8_t> bytes(*layout_bytes(layout, n, k), 0xEE);
    const auto out = export_weights(layout, codes.view(), n, k, scales, Granularity::group(256), bytes);
    ASSERT_TRUE(out.ok()) << out.error().str();
    write_text(folder / "tern", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    write_text(folder / "program.py",
               "import numpy as np, gguf\n"
               "kind = gguf.GGMLQuantizationType." +
                   std::string(layout == Layout::tq1_0 ? "TQ1_0" : "TQ2_0") +
                   "\n"
                   "values = np.fromfile('values', np.float32).reshape(96, 1024)\n"
                   "tern = np.fromfile('tern', np.uint8)\n"
                   "theirs = gguf.quants.quantize(values, kind)\n"
                   "assert (theirs.reshape(-1) == tern).all()\n"
                   "assert (gguf.quants.dequantize(tern.reshape(theirs.shape), kind) == values).all()\n"
                   "theirs.tofile('gguf')\n");
    ASSERT_EQ(std::system(("cd '" + folder.path().string() + "' && '" + python + "' program.py").c_str()), 0);
    Codes back(n, k);
    std::vector<float> again(scales.size());
    ASSERT_TRUE(import_weights(layout, bytes_of_file(folder / "gguf"), n, k, back.view(), again).ok());
    EXPECT_TRUE(back.equal(codes));
    EXPECT_EQ(again, scales);
  }
}

}  // namespace
}  // namespace tern
