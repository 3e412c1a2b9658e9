// Format tq2_0 of ggml: blocks of 256 columns, 64 bytes of codes and an f16 scale d; k is a multiple of 256.
//
//     byte 32h + m of a block     7 6 | 5 4 | 3 2 | 1 0       h = 0, 1; m = 0..31
//     element 128h +              96+m  64+m  32+m   m        code = trit + 1, 3 never appears
//     bytes 64, 65                d, little-endian; 0 if all trits are 0
#pragma once

#include "format/deal.h"
#include "format/layout_traits.h"

namespace tern::tq2_0 {

inline constexpr std::int64_t kBlock = 256, kCodeBytes = 64, kBlockBytes = 66;
using Halves = deal::Runs<8, false>;

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
      for (std::int64_t b = 0; b < blocks; ++b)
        Halves::to_i2(bytes + ((p.first + i) * blocks + b) * kBlockBytes, 2, codes.row(i) + b * kCodeBytes);
  }
  static void from_i2(const RowPiece& p, const LutTiles& /*tiles*/, const CodesIn& codes, std::uint8_t* bytes) {
    const std::int64_t blocks = p.k / kBlock;
    for (std::int64_t i = 0; i < p.count; ++i)
      for (std::int64_t b = 0; b < blocks; ++b)
        Halves::from_i2(codes.row(i) + b * kCodeBytes, 2, bytes + ((p.first + i) * blocks + b) * kBlockBytes);
  }
};

}  // namespace tern::tq2_0
