// Layouts: there and back in many shapes, whole and in pieces, hostile bits, and refusals by name.
#include "tern/layout.h"

#include <gtest/gtest.h>

#include <vector>

#include "format/layout.h"
#include "tests/support/guarded.h"
#include "tests/support/layout_cases.h"

namespace tern {
namespace {

using test::Codes;
using test::Guarded;
using test::layout_cases;
using test::LayoutCase;
using test::random_trits;
using test::some_scales;
using test::text;

// A case with its codes, its scales and the bytes that export makes of them.
struct Exported {
  Codes codes;
  std::vector<float> scales;
  std::vector<std::uint8_t> bytes;
  explicit Exported(const LayoutCase& c)
      : codes(c.n, c.k, 3), scales(some_scales(c)), bytes(*layout_bytes(c.spec, c.n, c.k), 0xEE) {
    codes.fill(random_trits(c.n * c.k));
    const Status out = export_rows(c.spec, codes.view(), c.n, c.k, {0, c.n}, scales, bytes);
    EXPECT_TRUE(out.ok()) << c.text() << ": " << text(out);
  }
};

TEST(Layouts, ThereAndBackInManyShapes) {
  for (const LayoutCase& c : layout_cases()) {
    const Exported exported(c);
    Guarded<std::uint8_t> bytes(exported.bytes.size());  // reading past the end faults
    std::memcpy(bytes.data(), exported.bytes.data(), exported.bytes.size());
    Codes back(c.n, c.k, 5);
    std::vector<float> scales(exported.scales.size(), -1.0F);
    const Status in = import_weights(c.spec, {bytes.data(), bytes.size()}, c.n, c.k, back.view(), scales);
    ASSERT_TRUE(in.ok()) << c.text() << ": " << text(in);
    EXPECT_TRUE(back.equal(exported.codes)) << c.text();
    EXPECT_EQ(scales, exported.scales) << c.text();
  }
}

TEST(Layouts, NothingBeyondTheLastByteIsTouched) {
  for (const LayoutCase& c : layout_cases()) {
    const Exported exported(c);
    Guarded<std::uint8_t> bytes(exported.bytes.size()), codes(static_cast<std::size_t>(c.n * exported.codes.line));
    for (std::int64_t row = 0; row < c.n; ++row)
      std::memcpy(codes.data() + row * exported.codes.line, exported.codes.bytes.data() + row * exported.codes.stride,
                  static_cast<std::size_t>(exported.codes.line));
    const TensorView view(codes.data(), DType::u8, {c.n, exported.codes.line});
    ASSERT_TRUE(export_rows(c.spec, view, c.n, c.k, {0, c.n}, exported.scales, {bytes.data(), bytes.size()}).ok());
    EXPECT_EQ(std::memcmp(bytes.data(), exported.bytes.data(), bytes.size()), 0) << c.text();
    std::memset(codes.data(), 0xEE, codes.size());
    std::vector<float> scales(exported.scales.size());
    ASSERT_TRUE(import_weights(c.spec, {bytes.data(), bytes.size()}, c.n, c.k, view, scales).ok());
    for (std::int64_t row = 0; row < c.n; ++row)
      ASSERT_EQ(std::memcmp(codes.data() + row * exported.codes.line,
                            exported.codes.bytes.data() + row * exported.codes.stride,
                            static_cast<std::size_t>(exported.codes.line)),
                0)
          << c.text();
  }
}

TEST(Layouts, PiecesOfRowsMakeTheWhole) {
  for (const LayoutCase& c : layout_cases()) {
    const Exported whole(c);
    const std::int64_t block = *layout_row_block(c.spec, c.n, c.k);
    const bool by_block = scales_in(c.spec.layout) == Granularity::group(256);
    const std::int64_t per_row = by_block ? c.k / 256 : 0;
    Codes back(c.n, c.k, 1);
    std::vector<std::uint8_t> bytes(whole.bytes.size(), 0xEE);
    std::vector<float> scales(whole.scales.size());
    // Last rows first, because no piece may depend on another.
    for (std::int64_t first = c.n - block; first >= 0; first -= block) {
      const RowRange range{first, block};
      const auto at = static_cast<std::size_t>(first * per_row);
      const auto count = by_block ? static_cast<std::size_t>(block * per_row) : whole.scales.size();
      Codes codes = whole.codes;
      const Status out =
          export_rows(c.spec, codes.rows(range), c.n, c.k, range, std::span(whole.scales).subspan(at, count), bytes);
      ASSERT_TRUE(out.ok()) << c.text() << text(out);
      const Status in =
          import_rows(c.spec, whole.bytes, c.n, c.k, range, back.rows(range), std::span(scales).subspan(at, count));
      ASSERT_TRUE(in.ok()) << c.text() << text(in);
    }
    EXPECT_EQ(bytes, whole.bytes) << c.text();
    EXPECT_TRUE(back.equal(whole.codes)) << c.text();
    EXPECT_EQ(scales, whole.scales) << c.text();
    if (block == 1) continue;
    Codes codes = whole.codes;
    if (c.spec.layout == Layout::hf_packed) {  // whose rows can be read one by one
      Codes one(c.n, c.k, 1);
      for (std::int64_t first = 0, count = 1; first < c.n; first += count, count = std::min(2 * count, c.n - first))
        ASSERT_EQ(text(import_rows(c.spec, whole.bytes, c.n, c.k, {first, count}, one.rows({first, count}), {})), "");
      EXPECT_TRUE(one.equal(whole.codes)) << c.text();
      EXPECT_NE(text(export_rows(c.spec, codes.rows({0, 4}), c.n + 4, c.k, {0, 4}, {}, bytes)), "");
      continue;
    }
    EXPECT_NE(text(import_rows(c.spec, whole.bytes, c.n, c.k, {1, block}, codes.rows({0, block}), scales)), "");
    EXPECT_NE(text(import_rows(c.spec, whole.bytes, c.n, c.k, {0, block - 1}, codes.rows({0, block - 1}), scales))
                  .find("are stored in blocks of " + std::to_string(block)),
              std::string::npos);
  }
}

TEST(Layouts, EveryCodeThatIsNoTritIsNamedByExport) {
  for (const LayoutCase& c : layout_cases()) {
    Exported exported(c);
    for (const std::int64_t element : {std::int64_t{0}, c.n * c.k / 2, c.n * c.k - 1}) {
      Codes codes = exported.codes;
      const std::int64_t row = element / c.k, column = element % c.k;
      codes.bytes[static_cast<std::size_t>(row * codes.stride + column / 4)] |=
          static_cast<std::uint8_t>(3 << (column % 4 * 2));
      const Status out = export_rows(c.spec, codes.view(), c.n, c.k, {0, c.n}, exported.scales, exported.bytes);
      ASSERT_EQ(out.code(), Code::invalid_quantized_value) << c.text();
      EXPECT_EQ(out.error().index, element) << c.text() << text(out);
    }
  }
}

// Sets every byte of the codes to every value. If import accepts the bytes, export must write the same bytes, so that
// no two encodings mean the same. If import refuses them, the error must name an element.
TEST(Layouts, EveryByteIsRefusedOrTheOnlyOneOfItsTrits) {
  for (const LayoutCase& c :
       {LayoutCase{Layout::i2, 2, 6}, LayoutCase{Layout::b3, 2, 7}, LayoutCase{Layout::ms_gpu, 16, 32},
        LayoutCase{Layout::hf_packed, 8, 3}, LayoutCase{Layout::i2_s_x86_128, 1, 128},
        LayoutCase{Layout::i2_s_arm_64, 2, 64}, LayoutCase{Layout::i2_s_1x4, 4, 6},
        LayoutCase{{Layout::tl1, {32, 8, 32}}, 32, 8}, LayoutCase{{Layout::tl2, {32, 96, 32}}, 32, 256},
        LayoutCase{Layout::tq1_0, 1, 256}, LayoutCase{Layout::tq2_0, 1, 256}}) {
    const Exported good(c);
    const bool blocks = scales_in(c.spec.layout) == Granularity::group(256);
    std::size_t end = good.bytes.size();
    if (scales_in(c.spec.layout) == Granularity::tensor()) end -= 32;
    if (blocks) end -= 2;
    if (c.spec.layout == Layout::tl2) end = 32 * (192 / 6 + 192 / 24 + 64 / 4);  // the zeros after that hold no codes
    const std::size_t step =
        c.spec.layout == Layout::tl2 ? 37 : 1;  // it is large, and the bytes of a part behave alike
    int refused = 0;
    for (std::size_t at = 0; at < end; at += step)
      for (int value = 0; value < 256; ++value) {
        std::vector<std::uint8_t> bytes = good.bytes, again(bytes.size(), 0xEE);
        bytes[at] = static_cast<std::uint8_t>(value);
        Codes codes(c.n, c.k, 2);
        std::vector<float> scales(good.scales.size());
        const Status in = import_weights(c.spec, bytes, c.n, c.k, codes.view(), scales);
        if (!in.ok()) {
          ASSERT_EQ(in.code(), Code::invalid_quantized_value) << c.text() << text(in);
          ASSERT_TRUE(in.error().index >= 0 && in.error().index < c.n * c.k) << c.text() << text(in);
          ++refused;
          continue;
        }
        ASSERT_TRUE(export_rows(c.spec, codes.view(), c.n, c.k, {0, c.n}, scales, again).ok()) << c.text();
        ASSERT_EQ(again, bytes) << c.text() << " byte " << at << " = " << value;
      }
    EXPECT_GT(refused, 0) << c.text();
  }
}

TEST(Layouts, HostileBitsAreNamedByTheirElement) {
  // i2_s: code 3 of element 37 of a run: byte 5, bits 5:4. Row 1 of a 1x4: bits 5:4.
  const auto refused = [](const LayoutCase& c, std::size_t byte, int set) {
    Exported e(c);
    e.bytes[byte] = static_cast<std::uint8_t>(set);
    const Status in = import_weights(c.spec, e.bytes, c.n, c.k, e.codes.view(), e.scales);
    EXPECT_EQ(in.code(), Code::invalid_quantized_value) << c.text();
    return in.ok() ? -1 : in.error().index;
  };
  EXPECT_EQ(refused({Layout::i2_s_x86_128, 2, 128}, 32 + 5, 0b01'11'01'01), 128 + 37);
  EXPECT_EQ(refused({Layout::i2_s_arm_64, 2, 64}, 16 + 5, 0b01'01'01'11), 64 + 48 + 5);
  EXPECT_EQ(refused({Layout::i2_s_1x4, 4, 10}, 7, 0b01'11'01'01), 10 + 7);
  EXPECT_EQ(refused({Layout::hf_packed, 8, 10}, 13, 0b01'11'01'01), 5 * 10 + 3);
  EXPECT_EQ(refused({Layout::tq2_0, 1, 256}, 33, 0b01'11'01'01), 128 + 64 + 1);
  EXPECT_EQ(refused({{Layout::tl1, {32, 8, 32}}, 32, 8}, 3, 0x49), 3 * 8 + 2);        // row 3, second pair: 9
  EXPECT_EQ(refused({{Layout::tl1, {32, 8, 32}}, 32, 8}, 16, 0xF4), 0 * 8 + 4);       // row 0, columns 4 on: 15
  EXPECT_EQ(refused({{Layout::tl2, {32, 96, 32}}, 32, 256}, 8, 0x0E), 16 * 256 + 3);  // the ninth byte is row 16's
  EXPECT_EQ(refused({Layout::tq1_0, 1, 256}, 2, 1), 2);
  EXPECT_EQ(refused({Layout::tq1_0, 1, 256}, 49, 255), 241);  // four trits and a fifth digit
}

TEST(Layouts, MinusZeroOfTl2IsRefused) {
  const LayoutCase c{{Layout::tl2, {32, 96, 32}}, 32, 256};
  Codes codes(c.n, c.k);
  codes.fill(std::vector<std::int8_t>(static_cast<std::size_t>(c.n * c.k)));
  std::vector<std::uint8_t> bytes(*layout_bytes(c.spec, c.n, c.k));
  std::vector<float> scale{0.5F};
  ASSERT_TRUE(export_rows(c.spec, codes.view(), c.n, c.k, {0, c.n}, scale, bytes).ok());
  const std::size_t signs = 32 * 192 / 6;
  for (int row = 0; row < 32; ++row)
    for (int triple = 0; triple < 64; ++triple) {
      auto hostile = bytes;
      const int bit = 15 - (2 * (triple % 8) + row / 16);
      hostile[signs + static_cast<std::size_t>(triple / 8 * 32 + row % 16 * 2 + bit / 8)] |=
          static_cast<std::uint8_t>(1 << bit % 8);
      const Status in = import_weights(c.spec, hostile, c.n, c.k, codes.view(), scale);
      ASSERT_EQ(in.code(), Code::invalid_quantized_value);
      EXPECT_EQ(in.error().index, row * c.k + 3 * triple);
    }
}

TEST(Layouts, ShapesThatDoNotFitAreRefusedWithTheMultiple) {
  const auto refusal = [](const LayoutSpec& spec, std::int64_t n, std::int64_t k) {
    const auto bytes = layout_bytes(spec, n, k);
    EXPECT_EQ(bytes.code(), Code::unsupported) << name(spec.layout) << n << ' ' << k;
    return text(bytes);
  };
  const auto has = [](const std::string& message, std::string_view part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(refusal(Layout::ms_gpu, 15, 32), "ms_gpu holds n a multiple of 16, not 15 x 32");
  has(refusal(Layout::ms_gpu, 16, 48), "k a multiple of 32");
  has(refusal(Layout::hf_packed, 6, 48), "n a multiple of 4");
  has(refusal(Layout::i2_s_x86_128, 4, 8640), "k a multiple of 128, not 4 x 8640");
  has(refusal(Layout::i2_s_arm_64, 4, 100), "k a multiple of 64");
  has(refusal(Layout::i2_s_1x4, 5, 128), "n a multiple of 4");
  has(refusal(Layout::tq1_0, 1, 128), "k a multiple of 256");
  has(refusal(Layout::tq2_0, 1, 300), "k a multiple of 256");
  has(refusal(Layout::tl1, 64, 64), "no tiles of bm 0, bk 0, bmm 0: bmm is 32 or 64");
  has(refusal({Layout::tl1, {48, 64, 32}}, 48, 64), "bm is a multiple of bmm");
  has(refusal({Layout::tl1, {64, 60, 32}}, 64, 60), "bk is a multiple of 256/bmm");
  has(refusal({Layout::tl1, {64, 64, 32}}, 32, 64), "n a multiple of 64");
  has(refusal({Layout::tl1, {64, 64, 32}}, 64, 96), "k a multiple of 64");
  has(refusal({Layout::tl1, {-64, 64, 32}}, 64, 64), "bm is a multiple of bmm");
  has(refusal({Layout::tl1, {std::int64_t{1} << 62, 64, 32}}, 64, 64), "bm is a multiple of bmm");
  has(refusal({Layout::tl2, {256, 96, 64}}, 4096, 1536), "bmm is 32");
  has(refusal({Layout::tl2, {32, 100, 32}}, 32, 300), "bk is a multiple of 24");
  has(refusal({Layout::tl2, {32, 96, 32}}, 48, 288), "n a multiple of 32");
  has(refusal({Layout::tl2, {32, 96, 32}}, 32, 192), "k of 256 and more");
  has(refusal({Layout::tl2, {32, 96, 32}}, 32, 304), "tl2 holds k if k modulo 96 is a multiple of 32");
  has(refusal({Layout::tl2, {32, 960, 32}}, 32, 928), "tl2 has too few bytes for the last 928 of 928 columns");
  for (const LayoutRow& row : layouts()) {
    const LayoutSpec spec(row.layout, {32, 96, 32});
    EXPECT_EQ(layout_bytes(spec, -32, 768).code(), Code::invalid_argument);
    EXPECT_EQ(layout_bytes(spec, std::int64_t{1} << 60, std::int64_t{1} << 60).code(), Code::invalid_argument);
  }
}

TEST(Layouts, SizesOfAllOfThem) {
  EXPECT_EQ(*layout_bytes(Layout::i2_s_x86_128, 2560, 6912), 2560U * 6912 / 4 + 32);
  EXPECT_EQ(*layout_bytes(Layout::i2_s_1x4, 4, 1), 1U + 32);
  EXPECT_EQ(*layout_bytes(Layout::hf_packed, 2560, 6912), 2560U * 6912 / 4);
  EXPECT_EQ(*layout_bytes(Layout::tq1_0, 3, 512), 3U * 2 * 54);
  EXPECT_EQ(*layout_bytes(Layout::tq2_0, 3, 512), 3U * 2 * 66);
  EXPECT_EQ(*layout_bytes({Layout::tl1, {256, 128, 64}}, 14336, 4096), 14336U * 4096 / 4 + 32);
  // (4096 - 256) * 14336 / 3 * 5 / 8 + 64 * 14336, both multiples of 32.
  EXPECT_EQ(*layout_bytes({Layout::tl2, {256, 96, 32}}, 14336, 4096), 11468800U + 917504 + 32);
  EXPECT_EQ(*layout_bytes(Layout::b3, 3, 6), 3U * 2);
  // A size beyond 2^32, without any allocation.
  EXPECT_EQ(*layout_bytes({Layout::tl2, {32, 96, 32}}, std::int64_t{1} << 40, 1048672),
            (((std::size_t{1} << 40) * (1048672 - 256) / 3 * 5 / 8 + (std::size_t{1} << 46)) + 31) / 32 * 32 + 32);
  EXPECT_EQ(*layout_scales(Layout::tq2_0, 3, 512), 6);
  EXPECT_EQ(*layout_scales(Layout::i2_s_1x4, 4, 5), 1);
  EXPECT_EQ(*layout_scales(Layout::hf_packed, 4, 5), 0);
  EXPECT_EQ(*layout_row_block(Layout::hf_packed, 12, 5), 12);
}

TEST(Layouts, NoWeightsAreNoWork) {
  for (const LayoutCase& c :
       {LayoutCase{Layout::ms_gpu, 0, 32}, LayoutCase{Layout::ms_gpu, 16, 0}, LayoutCase{Layout::hf_packed, 0, 7},
        LayoutCase{Layout::b3, 3, 0}, LayoutCase{Layout::i2, 0, 0}, LayoutCase{Layout::tq2_0, 0, 256},
        LayoutCase{Layout::tq1_0, 3, 0}}) {
    const Exported exported(c);
    EXPECT_TRUE(exported.bytes.empty()) << c.text();
    Codes back(c.n, c.k);
    EXPECT_TRUE(import_weights(c.spec, exported.bytes, c.n, c.k, back.view(), {}).ok()) << c.text();
  }
  const Exported trailer({Layout::i2_s_x86_128, 0, 128});  // nothing but a trailer of zeros
  EXPECT_EQ(trailer.bytes, std::vector<std::uint8_t>(32));
}

TEST(Layouts, WrongArgumentsAreRefused) {
  Codes codes(16, 32);
  codes.fill(random_trits(512));
  std::vector<std::uint8_t> bytes(128);
  EXPECT_NE(text(export_codes(Layout::ms_gpu, codes.view(), 16, 32, std::span(bytes).first(127)))
                .find("are 128 bytes, 127 were given"),
            std::string::npos);
  EXPECT_NE(text(export_codes(Layout::ms_gpu, codes.view(), 32, 32, bytes)).find("32 x 32"), std::string::npos);
  EXPECT_NE(text(import_codes(Layout::ms_gpu, codes.bytes, 16, 32, codes.view())).find("overlap"), std::string::npos);
  EXPECT_FALSE(import_codes(Layout::ms_gpu, bytes, 16, 32, {}).ok());
  EXPECT_FALSE(import_codes(Layout::ms_gpu, std::span<const std::uint8_t>(), 16, 32, codes.view()).ok());
  std::vector<float> scale{1.0F};
  EXPECT_NE(text(import_weights(Layout::ms_gpu, bytes, 16, 32, codes.view(), scale)).find("kept apart"),
            std::string::npos);
  std::vector<std::uint8_t> i2_s(160);
  EXPECT_NE(text(export_codes(Layout::i2_s_1x4, codes.view(), 16, 32, i2_s)).find("has 1 scales in the bytes"),
            std::string::npos);
  for (const RowRange range : {RowRange{-1, 1}, RowRange{0, 17}, RowRange{17, 0}, RowRange{1, -1}, RowRange{16, 1}})
    EXPECT_NE(text(import_rows(Layout::i2, bytes, 16, 32, range, codes.view(), {})).find("are not among 16 rows"),
              std::string::npos);
}

TEST(Layouts, HaveWords) {
  for (int i = 0; i <= static_cast<int>(Layout::tq2_0); ++i)
    EXPECT_EQ(*parse_layout(name(static_cast<Layout>(i))), static_cast<Layout>(i));
  EXPECT_EQ(name(Layout::i2_s_x86_128), "i2_s.x86_128");
  EXPECT_EQ(name(Layout::i2_s_1x4), "i2_s.1x4");
  EXPECT_NE(text(parse_layout("i2_s")).find("i2_s.x86_128, i2_s.arm_64, i2_s.1x4"), std::string::npos);
  EXPECT_FALSE(parse_layout("ms_cpu").ok());
}

}  // namespace
}  // namespace tern
