// Format tl1 of bitnet.cpp (look-up tables on ARM): a pair of columns (a, b) is an index 3a + b + 4 of 0..8. A byte
// holds two pairs, which are the four columns of an i2 byte:
//
//     byte     7 6 5 4 | 3 2 1 0
//     pair     columns  | columns         of one row
//              c, c+1   | c+2, c+3
//
// The bytes are ordered in tiles within tiles, with the parameters BM, BK and bm of kernel_config.ini and by = 256/bm:
//
//     [n/BM][k/BK][BM/bm][BK/by][bm/16][by/4][16 rows]    bytes
//
// n is a multiple of BM, k of BK, BM of bm (32 or 64) and BK of by. 32 bytes follow the codes; the first four are the
// f32 scale of the tensor.
#pragma once

#include <array>
#include <cstdint>

#include "format/layout_traits.h"

namespace tern::tl1 {

struct Tables {
  std::array<std::uint8_t, 256> to_i2{}, from_i2{};

  constexpr Tables() {
    for (unsigned byte = 0; byte < 256; ++byte) {
      to_i2[byte] = static_cast<std::uint8_t>(codes_of(byte >> 4) | codes_of(byte & 15) << 4);
      from_i2[byte] = static_cast<std::uint8_t>(index_of(byte & 15) << 4 | index_of(byte >> 4));
    }
  }
  // Two codes, the first in the low bits; both are 3 for an index that no pair has.
  static constexpr unsigned codes_of(unsigned index) { return index > 8 ? 0b11'11 : index / 3 | index % 3 << 2; }
  static constexpr unsigned index_of(unsigned codes) { return 3 * (codes & 3) + (codes >> 2); }
};
inline constexpr Tables kTables;
static_assert(kTables.to_i2[0x44] == 0b01'01'01'01 && kTables.from_i2[0b01'01'01'01] == 0x44);  // zeros
static_assert(kTables.to_i2[0x17] == 0b01'10'01'00);                                            // -1 0 +1 0
static_assert(kTables.to_i2[0x49] == 0b11'11'01'01);                                            // 9 is no pair

inline constexpr std::int64_t kBlockElems = 256;  // bm rows by 256/bm columns

// Calls map(byte offset, first row within the piece, byte column) for every vector of 16 bytes, one for each of 16
// rows. The piece must consist of whole blocks of bm rows.
template <class Map>
void each_vector(const RowPiece& p, const LutTiles& t, Map map) {
  const std::int64_t bm = t.block_rows, by = kBlockElems / bm;
  for (std::int64_t block = 0; block < p.count; block += bm) {
    const std::int64_t row = p.first + block, tile = row / t.tile_rows, in_tile = row % t.tile_rows;
    for (std::int64_t c = 0; c < p.k; c += t.tile_columns) {
      std::int64_t at = tile * t.tile_rows * (p.k / 4) + c / 4 * t.tile_rows + in_tile / bm * (bm * t.tile_columns / 4);
      for (std::int64_t cb = c; cb < c + t.tile_columns; cb += by)
        for (std::int64_t r = block; r < block + bm; r += 16)
          for (std::int64_t column = cb; column < cb + by; column += 4, at += 16) map(at, r, column / 4);
    }
  }
}

struct Traits : LayoutTraits {
  static constexpr ScalesIn kScales = ScalesIn::trailer;
  static constexpr bool kTiles = true;

  static Status check(const LayoutSpec& spec, std::int64_t n, std::int64_t k) {
    const LutTiles& t = spec.tiles;
    if (t.block_rows != 32 && t.block_rows != 64) return bad_tiles(spec, "bmm is 32 or 64");
    if (t.tile_rows < 1 || t.tile_rows > kMaxTileSize || t.tile_rows % t.block_rows != 0)
      return bad_tiles(spec, "bm is a multiple of bmm");
    if (t.tile_columns < 1 || t.tile_columns > kMaxTileSize || t.tile_columns % (kBlockElems / t.block_rows) != 0)
      return bad_tiles(spec, "bk is a multiple of 256/bmm");
    return check_multiples(spec, n, t.tile_rows, k, t.tile_columns, "its tiles are bm x bk");
  }
  static LayoutShape shape(const LutTiles& t, std::int64_t n, std::int64_t k) {
    return with_trailer(n * (k / 4), n * (k / 4), t.block_rows);
  }

  static void to_i2(const RowPiece& p, const LutTiles& t, const std::uint8_t* bytes, const CodesOut& codes) {
    each_vector(p, t, [&](std::int64_t at, std::int64_t row, std::int64_t column) {
      for (std::int64_t i = 0; i < 16; ++i) codes.row(row + i)[column] = kTables.to_i2[bytes[at + i]];
    });
  }
  static void from_i2(const RowPiece& p, const LutTiles& t, const CodesIn& codes, std::uint8_t* bytes) {
    each_vector(p, t, [&](std::int64_t at, std::int64_t row, std::int64_t column) {
      for (std::int64_t i = 0; i < 16; ++i) bytes[at + i] = kTables.from_i2[codes.row(row + i)[column]];
    });
  }
};

}  // namespace tern::tl1
