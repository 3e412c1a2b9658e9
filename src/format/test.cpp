// Every byte of every packed format, and rows of every short length.
#include <gtest/gtest.h>

#include <vector>

#include "format/b3.h"
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

// In every affine format, every byte reads as codes within the range and packs to the same byte again.
TEST(Affine, EveryByteRoundTrips) {
  for (const Format format : {Format::s8, Format::u8, Format::s4, Format::u4, Format::s2, Format::u2}) {
    const int per_byte = codes_per_byte(format);
    const CodeRange range = code_range(format);
    EXPECT_EQ(range.max - range.min + 1, 1 << (8 / per_byte)) << name(format);
    for (int byte = 0; byte < 256; ++byte) {
      const auto from = static_cast<std::uint8_t>(byte);
      std::uint8_t to = 0;
      std::vector<std::int8_t> codes;
      for (int j = 0; j < per_byte; ++j) {
        const int code = read_code(format, &from, j);
        EXPECT_GE(code, range.min) << name(format);
        EXPECT_LE(code, range.max) << name(format);
        EXPECT_EQ((byte >> (8 / per_byte * j)) & ((1 << (8 / per_byte)) - 1), code & ((1 << (8 / per_byte)) - 1));
        codes.push_back(static_cast<std::int8_t>(code));
      }
      pack_row(format, codes.data(), per_byte, &to);
      EXPECT_EQ(to, from) << name(format);
    }
  }
}

TEST(Affine, PaddingIsZero) {
  const std::int8_t code = 3;
  for (const Format format : {Format::s4, Format::u4, Format::u2}) {
    std::uint8_t row = 0xEE;
    pack_row(format, &code, 1, &row);
    EXPECT_EQ(row, 3) << name(format);
  }
}

// Ternary schemes do not use the affine formats, and affine quantization does not use those of trits.
TEST(Affine, FormatsAreApart) {
  for (const Format format : {Format::s8, Format::u8, Format::s4, Format::u4, Format::u2}) {
    EXPECT_TRUE(is_affine(format));
    for (const Scheme scheme : {Scheme::absmean, Scheme::absmax, Scheme::mse, Scheme::int2})
      EXPECT_FALSE(holds(format, scheme)) << name(format);
  }
  EXPECT_TRUE(is_affine(Format::s2) && holds(Format::s2, Scheme::int2));
  for (const Format format : {Format::i2, Format::i8, Format::b3}) EXPECT_FALSE(is_affine(format)) << name(format);
}

// The five trits of v = 0..242, the first the most significant.
std::array<int, 5> trits_of(int v) { return {v / 81 - 1, v / 27 % 3 - 1, v / 9 % 3 - 1, v / 3 % 3 - 1, v % 3 - 1}; }

TEST(B3, EveryTritsRoundTrip) {
  for (int v = 0; v < 243; ++v) {
    const auto byte = b3::pack(trits_of(v));
    EXPECT_TRUE(b3::valid(byte)) << v;
    for (int j = 0; j < 5; ++j) EXPECT_EQ(b3::read(byte, j), trits_of(v)[static_cast<std::size_t>(j)]) << v;
  }
}

TEST(B3, EveryByteKnowsWhetherTritsGiveIt) {
  int invalid = 0;
  for (int byte = 0; byte < 256; ++byte) {
    bool given = false;
    for (int v = 0; v < 243; ++v) given = given || b3::pack(trits_of(v)) == byte;
    EXPECT_EQ(b3::valid(static_cast<std::uint8_t>(byte)), given) << byte;
    for (int j = 0; j < 5 && !given; ++j) EXPECT_EQ(b3::read(static_cast<std::uint8_t>(byte), j), 2) << byte;
    invalid += given ? 0 : 1;
  }
  EXPECT_EQ(invalid, 13);
}

TEST(B3, BytesWorkedOutByHand) {
  // +1 0 -1 0 +1: 2*81 + 1*27 + 0*9 + 1*3 + 2 = 194, 194 * 256 / 243 = 204.4. -1 +1 and padding 0 0 0:
  // 0*81 + 2*27 + 1*9 + 1*3 + 1 = 67, 67 * 256 / 243 = 70.6.
  const std::int8_t codes[] = {1, 0, -1, 0, 1, -1, 1};
  std::uint8_t row[2] = {};
  pack_row(Format::b3, codes, 7, row);
  EXPECT_EQ(row[0], 205);
  EXPECT_EQ(row[1], 71);
}

TEST(Rows, PackAndReadEveryShortLength) {
  for (const Format format : {Format::i2, Format::s2, Format::i8, Format::b3})
    for (std::int64_t k = 0; k <= 11; ++k) {
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

TEST(Rows, ReadCodesFromEveryPlaceToEveryPlace) {
  constexpr std::int64_t kElems = 17;
  std::vector<std::uint8_t> row(kElems);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<std::uint8_t>(41 * i + 1);  // 1: no b3 byte
  for (const Format format :
       {Format::i2, Format::s2, Format::i8, Format::b3, Format::s8, Format::s4, Format::u4, Format::u2})
    for (std::int64_t first = 0; first <= kElems; ++first)
      for (std::int64_t n = 0; first + n <= kElems; ++n) {
        std::vector<std::int8_t> codes(static_cast<std::size_t>(n + 1), 99);
        read_codes(format, row.data(), first, n, codes.data());
        for (std::int64_t i = 0; i < n; ++i)
          EXPECT_EQ(codes[static_cast<std::size_t>(i)], read_code(format, row.data(), first + i))
              << name(format) << ' ' << first << ' ' << i;
        EXPECT_EQ(codes.back(), 99);
      }
}

TEST(Rows, EveryPlaceOfAnInvalidCodeIsFound) {
  for (const std::int64_t k : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 31, 32, 33, 63, 64, 65, 70, 127, 128, 129, 200})
    for (std::int64_t bad = 0; bad < k; ++bad) {
      std::vector<std::uint8_t> row(static_cast<std::size_t>(row_bytes(Format::i2, k)), i2::kPadding);
      row[static_cast<std::size_t>(bad / 4)] |= static_cast<std::uint8_t>(3U << (2 * (bad % 4)));
      EXPECT_EQ(first_invalid_code(Format::i2, Scheme::absmax, row.data(), k), bad);

      std::vector<std::uint8_t> bytes(static_cast<std::size_t>(k), 0);
      bytes[static_cast<std::size_t>(bad)] = 0xFE;  // -2: valid for int2 only
      EXPECT_EQ(first_invalid_code(Format::i8, Scheme::absmax, bytes.data(), k), bad);
      EXPECT_EQ(first_invalid_code(Format::i8, Scheme::int2, bytes.data(), k), -1);
      bytes[static_cast<std::size_t>(bad)] = 2;
      EXPECT_EQ(first_invalid_code(Format::i8, Scheme::int2, bytes.data(), k), bad);
    }
}

TEST(Rows, EveryPlaceOfAnInvalidB3ByteIsFound) {
  for (std::int64_t k = 1; k <= 16; ++k)
    for (std::int64_t bad = 0; bad < row_bytes(Format::b3, k); ++bad)
      for (int byte = 0; byte < 256; ++byte) {
        if (b3::valid(static_cast<std::uint8_t>(byte))) continue;
        std::vector<std::uint8_t> row(static_cast<std::size_t>(row_bytes(Format::b3, k)), b3::kPadding);
        row[static_cast<std::size_t>(bad)] = static_cast<std::uint8_t>(byte);
        EXPECT_EQ(first_invalid_code(Format::b3, Scheme::mse, row.data(), k), 5 * bad) << k << ' ' << byte;
      }
}

TEST(Rows, WrongPaddingIsFound) {
  const std::uint8_t i2_row[] = {0b00'01'01'01};  // three trits and a code 0 where the padding must be 1
  EXPECT_EQ(first_invalid_code(Format::i2, Scheme::absmax, i2_row, 3), 3);
  EXPECT_EQ(first_invalid_code(Format::i2, Scheme::absmax, i2_row, 4), -1);
  const std::uint8_t s2_row[] = {0b01'00'00'00};
  EXPECT_EQ(first_invalid_code(Format::s2, Scheme::int2, s2_row, 3), 3);
  const std::uint8_t b3_row[] = {b3::pack({0, 0, 0, 0, 1})};
  for (std::int64_t k = 1; k < 5; ++k) EXPECT_EQ(first_invalid_code(Format::b3, Scheme::absmean, b3_row, k), k);
  EXPECT_EQ(first_invalid_code(Format::b3, Scheme::absmean, b3_row, 5), -1);
}

TEST(Rows, FormatsHoldTheirSchemes) {
  EXPECT_TRUE(holds(Format::i2, Scheme::mse));
  EXPECT_FALSE(holds(Format::i2, Scheme::int2));
  EXPECT_FALSE(holds(Format::s2, Scheme::absmean));
  EXPECT_TRUE(holds(Format::s2, Scheme::int2));
  EXPECT_TRUE(holds(Format::i8, Scheme::int2));
  EXPECT_TRUE(holds(Format::b3, Scheme::absmean));
  EXPECT_FALSE(holds(Format::b3, Scheme::int2));
}

TEST(Format, ListsForErrorMessages) {
  EXPECT_EQ(holders_of(Scheme::absmean), "i2, b3 or i8");
  EXPECT_EQ(holders_of(Scheme::int2), "s2 or i8");
  EXPECT_EQ(affine_holders(), "s8, u8, s4, u4, s2 or u2");
  for (std::size_t i = 0; i < std::size(kFormats); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(kFormats[i]), i);
    EXPECT_EQ(*parse_format(name(kFormats[i])), kFormats[i]);
  }
}

TEST(Rows, BytesOfARow) {
  EXPECT_EQ(row_bytes(Format::i2, 9), 3);
  EXPECT_EQ(row_bytes(Format::i8, 9), 9);
  EXPECT_EQ(row_bytes(Format::b3, 0), 0);
  EXPECT_EQ(row_bytes(Format::b3, 5), 1);
  EXPECT_EQ(row_bytes(Format::b3, 6), 2);
  EXPECT_EQ(row_bytes(Format::b3, 4096), 820);
}

}  // namespace
}  // namespace tern
