// Format tl2 of bitnet.cpp (look-up tables on x86): a triple of columns (a, b, c) is an index |9a + 3b + c| of 0..13 in
// four bits, and a sign bit stored elsewhere: 5 bits for 3 weights. Columns after the last whole BK are pairs, as in
// tl1.
//
//     index byte of a row     7 6 5 4 | 3 2 1 0        [n/BM][k3/BK][BM/32][BK/6][32 rows]       k3 = k / BK * BK
//     triple                  c..c+2  | c+3..c+5
//     sign word of rows l, l+16       bit 15 - (2t + h) is the sign of triple t of row l + 16h, 1 = negative
//                                                       [n/BM][k3/BK][BM/32][BK/24][16 words]
//     pair byte of a row      as in tl1                 [n/BM][(k-k3)/32][BM/32][8][32 rows]
//
// Each 32 bytes hold one byte of each of 32 rows, in groups of eight rows in the order 0, 2, 1, 3. Indices, signs and
// pairs follow each other; zeros fill up to (k - 256) * n / 3 * 5 / 8 + 64 n bytes, rounded up to a multiple of 32;
// then come 32 bytes of which the first four are the f32 scale of the tensor. n is a multiple of BM, BM of 32, BK of
// 24, k - k3 of 32; bm is 32.
#pragma once

#include <array>
#include <cstdint>

#include "format/layout_traits.h"

namespace tern::tl2 {

inline constexpr std::int64_t kBlockRows = 32, kSignColumns = 24, kPairColumns = 32;
inline constexpr std::int64_t kMinK = 256;  // below it writers and readers round the size in different directions

struct Tables {
  // Maps index byte | sign of its first triple << 8 | sign of its second << 9 to six codes, the first in the low bits.
  // An index that no triple has (14, 15, and 0 with a sign) becomes three codes 3.
  std::array<std::uint16_t, 1024> codes{};
  std::array<std::uint8_t, 64> index{};  // maps three codes to index | sign << 4

  constexpr Tables() {
    for (unsigned i = 0; i < 1024; ++i)
      codes[i] = static_cast<std::uint16_t>(triple(i >> 4 & 15, i >> 8 & 1) | triple(i & 15, i >> 9) << 6);
    for (int v = -13; v <= 13; ++v)
      index[triple(static_cast<unsigned>(v < 0 ? -v : v), v < 0 ? 1 : 0)] =
          static_cast<std::uint8_t>(v < 0 ? -v | 16 : v);
  }
  static constexpr unsigned triple(unsigned magnitude, unsigned sign) {
    if (magnitude > 13 || (magnitude == 0 && sign == 1)) return 0b11'11'11;
    const unsigned v = sign == 1 ? 13 - magnitude : 13 + magnitude;
    return v / 9 | v / 3 % 3 << 2 | v % 3 << 4;
  }
};
inline constexpr Tables kTables;
static_assert(Tables::triple(0, 0) == 0b01'01'01 && Tables::triple(13, 1) == 0);
static_assert(Tables::triple(5, 0) == 0b00'00'10);  // +1 -1 -1: 9 - 3 - 1
static_assert(kTables.index[0b01'01'00] == (9 | 16) && kTables.codes[0x0E] == 0b11'11'11'01'01'01);

// The place of a row among the 32 bytes of a block.
constexpr std::int64_t place(std::int64_t row) {
  return row % 8 + (row / 8 == 1 ? 16 : row / 8 == 2 ? 8 : row / 8 * 8);
}
static_assert(place(7) == 7 && place(8) == 16 && place(16) == 8 && place(31) == 31);

struct Traits : LayoutTraits {
  static constexpr ScalesIn kScales = ScalesIn::trailer;
  static constexpr bool kTiles = true;

  static Status check(const LayoutSpec& spec, std::int64_t n, std::int64_t k);
  // The three parts use some of the bytes before the trailer; the rest is zeros.
  static LayoutShape shape(const LutTiles& t, std::int64_t n, std::int64_t k);

  // The piece must consist of whole blocks of 32 rows.
  static void to_i2(const RowPiece& p, const LutTiles& t, const std::uint8_t* bytes, const CodesOut& codes);
  static void from_i2(const RowPiece& p, const LutTiles& t, const CodesIn& codes, std::uint8_t* bytes);
};

}  // namespace tern::tl2
