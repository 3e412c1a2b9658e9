// Every byte of every 2-bit format, and rows of every short length.
#include <gtest/gtest.h>

#include <vector>

#include "format/format.h"
#include "format/i2.h"
#include "format/s2.h"

namespace tern {
namespace {

TEST(I2, EveryTritsRoundTrip) {
  for (int code = 0; code < 81; ++code) {
    const std::array<int, 4> trits = {code % 3 - 1, code / 3 % 3 - 1, code / 9 % 3 - 1, code / 27 - 1};
    const auto byte = i2::pack(trits);
    EXPECT_FALSE(i2::has_code3(byte)) << code;
    for (int j = 0; j < 4; ++j) EXPECT_EQ(i2::read(byte, j), trits[static_cast<std::size_t>(j)]) << code;
  }
}

TEST(I2, EveryByteKnowsItsCode3) {
  for (int byte = 0; byte < 256; ++byte) {
    bool found = false;
    for (int j = 0; j < 4; ++j) found = found || ((byte >> (2 * j)) & 3) == 3;
    EXPECT_EQ(i2::has_code3(static_cast<std::uint8_t>(byte)), found) << byte;
  }
}

TEST(S2, EveryByteRoundTrips) {
  for (int byte = 0; byte < 256; ++byte) {
    std::array<int, 4> codes{};
    for (int j = 0; j < 4; ++j) {
      codes[static_cast<std::size_t>(j)] = s2::read(static_cast<std::uint8_t>(byte), j);
      EXPECT_GE(codes[static_cast<std::size_t>(j)], -2);
      EXPECT_LE(codes[static_cast<std::size_t>(j)], 1);
    }
    EXPECT_EQ(s2::pack(codes), byte);
  }
}

TEST(Rows, PackAndReadEveryShortLength) {
  for (const Format format : {Format::i2, Format::s2, Format::i8})
    for (std::int64_t k = 0; k <= 9; ++k) {
      const int low = format == Format::s2 ? -2 : -1;
      std::vector<std::int8_t> codes(static_cast<std::size_t>(k));
      for (std::size_t i = 0; i < codes.size(); ++i)
        codes[i] = static_cast<std::int8_t>(low + static_cast<int>(i * 7 % static_cast<std::size_t>(2 - low)));
      std::vector<std::uint8_t> row(static_cast<std::size_t>(row_bytes(format, k)), 0xEE);
      pack_row(format, codes.data(), k, row.data());
      for (std::int64_t i = 0; i < k; ++i)
        EXPECT_EQ(read_code(format, row.data(), i), codes[static_cast<std::size_t>(i)])
            << name(format) << k << ' ' << i;
      const Scheme scheme = format == Format::s2 ? Scheme::int2 : Scheme::absmean;
      EXPECT_EQ(first_invalid_code(format, scheme, row.data(), k), -1) << name(format) << k;
    }
}

TEST(Rows, EveryPlaceOfAnInvalidCodeIsFound) {
  for (std::int64_t k = 1; k <= 13; ++k)
    for (std::int64_t bad = 0; bad < k; ++bad) {
      std::vector<std::uint8_t> row(static_cast<std::size_t>(row_bytes(Format::i2, k)), i2::kPadding);
      row[static_cast<std::size_t>(bad / 4)] |= static_cast<std::uint8_t>(3U << (2 * (bad % 4)));
      EXPECT_EQ(first_invalid_code(Format::i2, Scheme::absmax, row.data(), k), bad);

      std::vector<std::uint8_t> bytes(static_cast<std::size_t>(k), 0);
      bytes[static_cast<std::size_t>(bad)] = 0xFE;  // -2: valid for int2 only
      EXPECT_EQ(first_invalid_code(Format::i8, Scheme::absmax, bytes.data(), k), bad);
      EXPECT_EQ(first_invalid_code(Format::i8, Scheme::int2, bytes.data(), k), -1);
    }
}

TEST(Rows, WrongPaddingIsFound) {
  const std::uint8_t i2_row[] = {0b00'01'01'01};  // three trits and a code 0 where the padding must be 1
  EXPECT_EQ(first_invalid_code(Format::i2, Scheme::absmax, i2_row, 3), 3);
  EXPECT_EQ(first_invalid_code(Format::i2, Scheme::absmax, i2_row, 4), -1);
  const std::uint8_t s2_row[] = {0b01'00'00'00};
  EXPECT_EQ(first_invalid_code(Format::s2, Scheme::int2, s2_row, 3), 3);
}

TEST(Rows, FormatsHoldTheirSchemes) {
  EXPECT_TRUE(holds(Format::i2, Scheme::mse));
  EXPECT_FALSE(holds(Format::i2, Scheme::int2));
  EXPECT_FALSE(holds(Format::s2, Scheme::absmean));
  EXPECT_TRUE(holds(Format::s2, Scheme::int2));
  EXPECT_TRUE(holds(Format::i8, Scheme::int2));
}

}  // namespace
}  // namespace tern
