// Tern's own formats as layouts: copies rows of i2, converts rows of b3 to i2 and back. Padding is always written
// correctly. Where it was read wrong, the codes that share its byte become 3, which is no trit.
#pragma once

#include <cstring>

#include "format/b3.h"
#include "format/format.h"
#include "format/i2.h"
#include "format/layout_traits.h"

namespace tern::own_rows {

// The padding bits in the last byte of a row of k i2 codes.
constexpr unsigned padding_bits(std::int64_t k) { return k % 4 == 0 ? 0 : 0xFFU << (2 * (k % 4)) & 0xFFU; }

struct I2 : LayoutTraits {
  static LayoutShape shape(const LutTiles& /*tiles*/, std::int64_t n, std::int64_t k) {
    return rows_alone(n, row_bytes(Format::i2, k), 1);
  }
  static void to_i2(const RowPiece& p, const LutTiles& /*tiles*/, const std::uint8_t* bytes, const CodesOut& codes) {
    const std::int64_t line = row_bytes(Format::i2, p.k);
    for (std::int64_t i = 0; i < p.count; ++i) {
      const std::uint8_t* from = bytes + (p.first + i) * line;
      std::memcpy(codes.row(i), from, static_cast<std::size_t>(line));
      if (((from[line - 1] ^ i2::kPadding) & padding_bits(p.k)) != 0) codes.row(i)[line - 1] = 0xFF;
    }
  }
  static void from_i2(const RowPiece& p, const LutTiles& /*tiles*/, const CodesIn& codes, std::uint8_t* bytes) {
    const std::int64_t line = row_bytes(Format::i2, p.k);
    for (std::int64_t i = 0; i < p.count; ++i) {
      std::uint8_t* to = bytes + (p.first + i) * line;
      std::memcpy(to, codes.row(i), static_cast<std::size_t>(line));
      const unsigned padding = padding_bits(p.k);
      to[line - 1] = static_cast<std::uint8_t>((to[line - 1] & ~padding) | (i2::kPadding & padding));
    }
  }
};

struct B3Tables {
  std::array<std::uint16_t, 256> codes{};  // five codes, the first in the low bits; all 3 for an invalid byte
  std::array<std::uint8_t, 1024> bytes{};

  constexpr B3Tables() {
    for (unsigned byte = 0; byte < 256; ++byte) {
      unsigned five = 0;
      for (unsigned j = 0; j < 5; ++j) five |= static_cast<unsigned>(b3::kCodes[byte][j] + 1) << (2 * j);
      codes[byte] = static_cast<std::uint16_t>(five);
      if (five != 0x3FF) bytes[five] = static_cast<std::uint8_t>(byte);
    }
  }
};

struct B3 : LayoutTraits {
  static LayoutShape shape(const LutTiles& /*tiles*/, std::int64_t n, std::int64_t k) {
    return rows_alone(n, row_bytes(Format::b3, k), 1);
  }
  static constexpr B3Tables kTables{};
  static constexpr unsigned kZeros = 0b01'01'01'01'01;

  // Five codes with all after the first `count` replaced by zeros.
  static constexpr unsigned padded(unsigned five, std::int64_t count) {
    if (count >= 5) return five;
    const unsigned kept = (1U << (2 * count)) - 1;
    return (five & kept) | (kZeros & ~kept);
  }

  static void to_i2(const RowPiece& p, const LutTiles& /*tiles*/, const std::uint8_t* bytes, const CodesOut& codes) {
    for (std::int64_t i = 0; i < p.count; ++i)
      row_to_i2(bytes + (p.first + i) * row_bytes(Format::b3, p.k), p.k, codes.row(i));
  }
  static void from_i2(const RowPiece& p, const LutTiles& /*tiles*/, const CodesIn& codes, std::uint8_t* bytes) {
    for (std::int64_t i = 0; i < p.count; ++i)
      row_from_i2(codes.row(i), p.k, bytes + (p.first + i) * row_bytes(Format::b3, p.k));
  }

 private:
  static constexpr std::int64_t kTurn = 20;  // codes in four bytes of b3, five of i2

  static void row_to_i2(const std::uint8_t* from, std::int64_t k, std::uint8_t* to) {
    const std::uint8_t* end = to + row_bytes(Format::i2, k);
    for (; k >= kTurn; k -= kTurn, from += 4, to += 5) {
      std::uint64_t bits = 0;
      for (int i = 0; i < 4; ++i) bits |= std::uint64_t{kTables.codes[from[i]]} << (10 * i);
      std::memcpy(to, &bits, 5);
    }
    std::uint64_t bits = 0;
    int held = 0;
    for (; k > 0; k -= 5, held += 10) {
      unsigned five = kTables.codes[*from++];
      if (five != padded(five, k)) five = padded(0x3FF, k);
      bits |= std::uint64_t{five} << held;
    }
    bits |= std::uint64_t{i2::kPadding} << held;  // if b3 ends before the last byte of i2
    for (; to < end; bits >>= 8) *to++ = static_cast<std::uint8_t>(bits);
  }
  static void row_from_i2(const std::uint8_t* from, std::int64_t k, std::uint8_t* to) {
    for (; k >= kTurn; k -= kTurn, from += 5, to += 4) {
      std::uint32_t low = 0;  // two loads: a word assembled in memory stalls its load
      std::memcpy(&low, from, sizeof low);
      const std::uint64_t bits = low | std::uint64_t{from[4]} << 32;
      for (int i = 0; i < 4; ++i) to[i] = kTables.bytes[bits >> (10 * i) & 0x3FF];
    }
    std::uint64_t bits = 0;
    std::memcpy(&bits, from, static_cast<std::size_t>(row_bytes(Format::i2, k)));
    for (; k > 0; k -= 5, bits >>= 10) *to++ = kTables.bytes[padded(bits & 0x3FF, k)];
  }
};
static_assert(B3::kTables.codes[0x80] == B3::kZeros && B3::kTables.bytes[B3::kZeros] == 0x80);
static_assert(B3::kTables.codes[1] == 0x3FF && B3::padded(0x3FF, 2) == 0b01'01'01'11'11);

}  // namespace tern::own_rows
