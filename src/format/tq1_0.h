// Format tq1_0 of ggml: blocks of 256 columns, five trits a byte as in b3, and an f16 scale d; k is a multiple of 256.
//
//     byte m = 0..31         elements      m + 32 n, n = 0..4: the trit of n = 0 is the most significant
//     byte 32 + m, m < 16    elements 160 + m + 16 n, n = 0..4
//     byte 48 + m, m < 4     elements 240 + m +  4 n, n = 0..3, then a digit 0: trit -1 in the last place
//     bytes 52, 53           d, little-endian; 0 if all trits are 0
#pragma once

#include "format/b3.h"
#include "format/deal.h"
#include "format/layout_traits.h"

namespace tern::tq1_0 {

inline constexpr std::int64_t kBlock = 256, kCodeBytes = 52, kBlockBytes = 54, kI2Bytes = 64;

// The tables have code n of a byte at bits 8n and 8n + 1. So the entries of four bytes, shifted by 0, 2, 4 and 6 bits
// and ORed, are i2 bytes of five streams. An invalid byte has codes 3; in `four`, so has a byte whose fifth digit is
// not 0.
struct Tables {
  std::array<std::uint64_t, 256> five{}, four{};
  std::array<std::uint8_t, 1024> bytes{};  // the byte of five codes, the first in the low bits

  constexpr Tables() {
    for (unsigned byte = 0; byte < 256; ++byte) {
      for (unsigned n = 0; n < 5; ++n) {
        const auto code = static_cast<std::uint64_t>(b3::kCodes[byte][n] + 1);
        five[byte] |= code << (8 * n);
        if (n < 4) four[byte] |= code << (8 * n);
      }
      if (b3::kCodes[byte][4] != -1) four[byte] = 0x0303'0303;
    }
    for (unsigned v = 0; v < 243; ++v) {
      const std::array<unsigned, 5> c = {v / 81, v / 27 % 3, v / 9 % 3, v / 3 % 3, v % 3};
      bytes[c[0] | c[1] << 2 | c[2] << 4 | c[3] << 6 | c[4] << 8] = static_cast<std::uint8_t>((v * 256 + 242) / 243);
    }
  }
};
inline constexpr Tables kTables;
static_assert(kTables.five[0x80] == 0x01'01'01'01'01);                               // five zeros
static_assert(kTables.five[205] == 0x02'01'00'01'02 && kTables.five[1] >> 32 == 3);  // +1 0 -1 0 +1; no trits
static_assert(kTables.bytes[0b01'01'01'01'01] == 0x80);

// Unpacks kBytes * 4 bytes of five (or four) trits to kStreams * kBytes bytes of i2.
template <int kStreams, int kBytes>
inline void deal_part(const std::uint8_t* from, std::uint8_t* i2) {
  const auto& table = kStreams == 5 ? kTables.five : kTables.four;
  for (int i = 0; i < kBytes; ++i) {
    const std::uint8_t* b = from + 4 * i;
    const std::uint64_t codes = table[b[0]] | table[b[1]] << 2 | table[b[2]] << 4 | table[b[3]] << 6;
    for (int n = 0; n < kStreams; ++n) i2[n * kBytes + i] = static_cast<std::uint8_t>(codes >> (8 * n));
  }
}
template <int kStreams, int kBytes>
inline void gather_part(const std::uint8_t* i2, std::uint8_t* to) {
  for (int i = 0; i < kBytes; ++i) {
    std::uint64_t codes = 0;  // one byte per stream; a missing fifth stream has digit 0
    for (int n = 0; n < kStreams; ++n) codes |= std::uint64_t{i2[n * kBytes + i]} << (8 * n);
    for (int m = 0; m < 4; ++m) {
      const std::uint64_t apart = codes >> (2 * m) & 0x03'03'03'03'03;
      to[4 * i + m] = kTables.bytes[(apart & 3) | (apart >> 6 & 0xC) | (apart >> 12 & 0x30) | (apart >> 18 & 0xC0) |
                                    (apart >> 24 & 0x300)];
    }
  }
}

struct Traits : LayoutTraits {
  static constexpr ScalesIn kScales = ScalesIn::blocks;
  static constexpr std::int64_t kScaleColumns = kBlock, kColumns = kBlock;
  static constexpr std::string_view kBecause = "rows are in blocks of 256";

  static LayoutShape shape(const LutTiles& /*tiles*/, std::int64_t n, std::int64_t k) {
    return in_blocks(n, k / kBlock, kBlockBytes, kCodeBytes);
  }

  static void to_i2(const RowPiece& p, const LutTiles& /*tiles*/, const std::uint8_t* bytes, const CodesOut& codes) {
    const std::int64_t blocks = p.k / kBlock;
    for (std::int64_t i = 0; i < p.count; ++i)
      for (std::int64_t b = 0; b < blocks; ++b) {
        const std::uint8_t* block = bytes + ((p.first + i) * blocks + b) * kBlockBytes;
        std::uint8_t* i2 = codes.row(i) + b * kI2Bytes;
        deal_part<5, 8>(block, i2);
        deal_part<5, 4>(block + 32, i2 + 40);
        deal_part<4, 1>(block + 48, i2 + 60);
      }
  }
  static void from_i2(const RowPiece& p, const LutTiles& /*tiles*/, const CodesIn& codes, std::uint8_t* bytes) {
    const std::int64_t blocks = p.k / kBlock;
    for (std::int64_t i = 0; i < p.count; ++i)
      for (std::int64_t b = 0; b < blocks; ++b) {
        std::uint8_t* block = bytes + ((p.first + i) * blocks + b) * kBlockBytes;
        const std::uint8_t* i2 = codes.row(i) + b * kI2Bytes;
        gather_part<5, 8>(i2, block);
        gather_part<5, 4>(i2 + 40, block + 32);
        gather_part<4, 1>(i2 + 60, block + 48);
      }
  }
};

}  // namespace tern::tq1_0
