// The tables behind layouts, exhausted: every pair, every triple, every five trits, every byte.
#include "format/layout.h"

#include <gtest/gtest.h>

#include <set>

#include "format/own_rows.h"
#include "format/tl1.h"
#include "format/tl2.h"
#include "format/tq1_0.h"

namespace tern {
namespace {

TEST(LayoutTables, EveryTwoPairsOfTl1) {
  int valid = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const int high = byte >> 4, low = byte & 15;
    const std::uint8_t i2 = tl1::kTables.to_i2[static_cast<std::size_t>(byte)];
    EXPECT_EQ(i2::has_code3(i2), high > 8 || low > 8) << byte;
    for (int j = 0; j < 2; ++j) {
      EXPECT_EQ(i2::read(i2, j), high > 8 ? 2 : (j == 0 ? high / 3 : high % 3) - 1) << byte;
      EXPECT_EQ(i2::read(i2, 2 + j), low > 8 ? 2 : (j == 0 ? low / 3 : low % 3) - 1) << byte;
    }
    if (i2::has_code3(i2)) continue;
    EXPECT_EQ(tl1::kTables.from_i2[i2], byte);
    ++valid;
  }
  EXPECT_EQ(valid, 81);
}

TEST(LayoutTables, EveryTwoTriplesOfTl2) {
  std::set<int> seen;
  for (int a = -13; a <= 13; ++a)
    for (int b = -13; b <= 13; ++b) {
      const int index = std::abs(a) << 4 | std::abs(b) | (a < 0 ? 256 : 0) | (b < 0 ? 512 : 0);
      const int codes = tl2::kTables.codes[static_cast<std::size_t>(index)];
      const auto trit = [codes](int j) { return (codes >> (2 * j) & 3) - 1; };
      EXPECT_EQ(9 * trit(0) + 3 * trit(1) + trit(2), a);
      EXPECT_EQ(9 * trit(3) + 3 * trit(4) + trit(5), b);
      for (int j = 0; j < 6; ++j) EXPECT_LE(trit(j), 1);
      EXPECT_EQ(tl2::kTables.index[static_cast<std::size_t>(codes & 63)], std::abs(a) | (a < 0 ? 16 : 0));
      seen.insert(index);
    }
  for (int index = 0; index < 1024; ++index) {
    if (seen.contains(index)) continue;
    const int codes = tl2::kTables.codes[static_cast<std::size_t>(index)];
    EXPECT_TRUE((codes & 63) == 63 || codes >> 6 == 63) << index;
  }
}

TEST(LayoutTables, EveryFiveTritsOfTq1AndB3) {
  int valid = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto b = static_cast<std::uint8_t>(byte);
    const std::uint64_t five = tq1_0::kTables.five[byte];
    const unsigned row = own_rows::B3::kTables.codes[byte];
    unsigned packed = 0;
    for (int j = 0; j < 5; ++j) {
      const auto code = static_cast<unsigned>(b3::read(b, j) + 1);  // 3 for an invalid byte
      EXPECT_EQ(five >> (8 * j) & 255, code);
      EXPECT_EQ(row >> (2 * j) & 3, code);
      packed |= code << (2 * j);
    }
    const bool four = b3::valid(b) && b3::read(b, 4) == -1;
    EXPECT_EQ(tq1_0::kTables.four[byte], four ? five & 0xFFFF'FFFF : 0x0303'0303) << byte;
    if (!b3::valid(b)) continue;
    EXPECT_EQ(tq1_0::kTables.bytes[packed], byte);
    EXPECT_EQ(own_rows::B3::kTables.bytes[packed], byte);
    ++valid;
  }
  EXPECT_EQ(valid, 243);
}

TEST(LayoutTables, RowsAreInTheOrderOfTheEnumAndThoseOfATypeTogether) {
  for (std::size_t i = 0; i < layouts().size(); ++i) {
    const LayoutRow& row = layouts()[i];
    EXPECT_EQ(static_cast<std::size_t>(row.layout), i) << row.name;
    EXPECT_EQ(&row_of(row.layout), &row);
    const auto orders = layouts_of(row.type);
    if (row.type == StoredType::u8) {
      EXPECT_TRUE(orders.empty());
    } else {
      EXPECT_TRUE(&row >= &orders.front() && &row <= &orders.back()) << row.name;
    }
  }
  EXPECT_EQ(row_of(static_cast<Layout>(layouts().size())).shape, nullptr);
}

TEST(LayoutTables, AContainerBeginsWithItsUsualLayout) {
  const auto words = [](Container container) {
    std::string text;
    for (const LayoutRow* row : layouts_in(container)) text += std::string(row->name) + " ";
    return text;
  };
  EXPECT_TRUE(words(Container::safetensors).starts_with("i2 b3 hf_packed ms_gpu "));
  EXPECT_TRUE(words(Container::gguf).starts_with("i2_s.x86_128 i2_s.arm_64 i2_s.1x4 tl1 tl2 tq1_0 tq2_0 "));
}

TEST(LayoutTables, EveryPlaceOfACode3IsSeen) {
  for (std::int64_t k = 1; k <= 70; ++k) {
    std::vector<std::uint8_t> row(static_cast<std::size_t>((k + 3) / 4), i2::kPadding);
    EXPECT_TRUE(all_trits(row.data(), k));
    for (std::int64_t i = 0; i < 4 * static_cast<std::int64_t>(row.size()); ++i) {
      auto bad = row;
      bad[static_cast<std::size_t>(i / 4)] |= static_cast<std::uint8_t>(3 << (2 * (i % 4)));
      EXPECT_EQ(all_trits(bad.data(), k), i >= k) << k << ' ' << i;
    }
  }
}

TEST(LayoutTables, WrongPaddingIsNoTrit) {
  // Three columns: the fourth code of i2, the fourth and fifth of b3.
  std::uint8_t codes = 0;
  const CodesOut out{&codes, 1};
  const RowPiece piece{1, 3, 0, 1};
  const std::uint8_t i2_good = i2::pack({-1, 0, 1, 0}), i2_bad = i2::pack({-1, 0, 1, 1});
  layout_to_i2(Layout::i2, piece, &i2_good, out);
  EXPECT_EQ(codes, i2_good);
  layout_to_i2(Layout::i2, piece, &i2_bad, out);
  EXPECT_FALSE(all_trits(&codes, 3));
  const std::uint8_t b3_good = b3::pack({-1, 0, 1, 0, 0});
  layout_to_i2(Layout::b3, piece, &b3_good, out);
  EXPECT_EQ(codes, i2_good);
  for (const std::uint8_t bad : {b3::pack({-1, 0, 1, 1, 0}), b3::pack({-1, 0, 1, 0, -1})}) {
    layout_to_i2(Layout::b3, piece, &bad, out);
    EXPECT_FALSE(all_trits(&codes, 3));
  }
}

}  // namespace
}  // namespace tern
