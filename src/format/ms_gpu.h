// Microsoft's BitNet GPU layout: tiles of 16 rows by 32 columns, 128 bytes each, [n/16][k/32]. A tile is 32 words, each
// 16 columns of one row:
//
//     word w     row 8 * (w / 16) + w % 8, columns 16 * (w % 16 / 8) on
//
//     byte b of a word     7 6 | 5 4 | 3 2 | 1 0
//     code (trit + 2) of   12+b  8+b   4+b   b         code 0 never appears
#pragma once

#include <cstdint>

#include "format/deal.h"
#include "format/layout_traits.h"
#include "format/tile16.h"

namespace tern {

struct MsGpu : LayoutTraits {
  static constexpr std::int64_t kRows = 16, kColumns = 32, kTileBytes = 128, kWord = 16;
  static constexpr std::string_view kBecause = "its tiles are 16 x 32";

  static LayoutShape shape(const LutTiles& /*tiles*/, std::int64_t n, std::int64_t k) {
    return rows_alone(n, k / 4, kRows);
  }

  // The byte offset of the word that holds columns c to c + 15 of a row; c is a multiple of 16.
  static constexpr std::int64_t word_at(std::int64_t k, std::int64_t row, std::int64_t c) {
    const std::int64_t tile = row / kRows * (k / kColumns) + c / kColumns, r = row % kRows;
    return tile * kTileBytes + 4 * (16 * (r / 8) + 8 * (c % kColumns / kWord) + r % 8);
  }

  // Converts sixteen i2 codes to a word and back: transposes 4 x 4 codes and adds 1 to each, modulo 4. (Code 0 becomes
  // 3 in to_i2, which is no trit in i2 either.) All 2-bit sums at once: the low bit flips; the high bit flips where the
  // low bit was 1 (to subtract: was 0).
  static constexpr std::uint32_t from_i2(std::uint32_t codes) {
    const std::uint32_t t = Tile16::transpose(codes);
    return t ^ 0x5555'5555U ^ (t & 0x5555'5555U) << 1;
  }
  static constexpr std::uint32_t to_i2(std::uint32_t word) {
    return Tile16::transpose(~(word ^ (word & 0x5555'5555U) << 1));
  }

  // The piece must consist of whole tiles. The two words of a row in a tile are eight words apart.
  static constexpr std::int64_t kHalf = 32;
  static void to_i2(const RowPiece& p, const LutTiles& /*tiles*/, const std::uint8_t* bytes, const CodesOut& codes) {
    for (std::int64_t i = 0; i < p.count; ++i) {
      const std::uint8_t* word = bytes + word_at(p.k, p.first + i, 0);
      for (std::int64_t c = 0; c < p.k; c += kColumns, word += kTileBytes) {
        deal::store(codes.row(i) + c / 4, to_i2(deal::load(word)));
        deal::store(codes.row(i) + c / 4 + 4, to_i2(deal::load(word + kHalf)));
      }
    }
  }
  static void from_i2(const RowPiece& p, const LutTiles& /*tiles*/, const CodesIn& codes, std::uint8_t* bytes) {
    for (std::int64_t i = 0; i < p.count; ++i) {
      std::uint8_t* word = bytes + word_at(p.k, p.first + i, 0);
      for (std::int64_t c = 0; c < p.k; c += kColumns, word += kTileBytes) {
        deal::store(word, from_i2(deal::load(codes.row(i) + c / 4)));
        deal::store(word + kHalf, from_i2(deal::load(codes.row(i) + c / 4 + 4)));
      }
    }
  }
};

static_assert(MsGpu::word_at(64, 3, 16) == MsGpu::word_at(64, 3, 0) + MsGpu::kHalf);
static_assert(MsGpu::from_i2(0x5555'5555U) == 0xAAAA'AAAAU);                            // zeros
static_assert(MsGpu::from_i2(0x5555'5555U ^ 0b11) == (0xAAAA'AAAAU ^ 0b01));            // column 0 is +1
static_assert(MsGpu::from_i2(0x5555'5555U ^ 0b01'00) == (0xAAAA'AAAAU ^ 0b11U << 8));   // column 1 is -1, in byte 1
static_assert(MsGpu::from_i2(0x5555'5555U ^ 0b11U << 8) == (0xAAAA'AAAAU ^ 0b01'00U));  // column 4, bits 2 and 3
static_assert(MsGpu::to_i2(0xAAAA'AAAAU ^ 0b01'00) == (0x5555'5555U ^ 0b11U << 8));     // and back
static_assert(MsGpu::to_i2(0xAAAA'AAA8U) == 0x5555'5557U);                              // code 0 is no trit

}  // namespace tern
