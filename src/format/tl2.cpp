// Converts triples and pairs of tl2 to i2 and back, 32 rows at a time.
#include "format/tl2.h"

#include <cstring>

#include "base/checked.h"
#include "base/errors.h"
#include "format/tl1.h"

namespace tern::tl2 {
namespace {

// Where the parts of a block of 32 rows start.
struct Block {
  std::int64_t three_k, index, signs, pairs;       // of its first columns
  std::int64_t index_step, signs_step, pair_step;  // from one BK (or 32 columns of pairs) to the next

  Block(const RowPiece& p, const LutTiles& t, std::int64_t row) {
    three_k = p.k / t.tile_columns * t.tile_columns;
    const std::int64_t two_k = p.k - three_k, tile = row / t.tile_rows * t.tile_rows, in_tile = row % t.tile_rows;
    const std::int64_t signs_at = p.n * (three_k / 6), pairs_at = signs_at + p.n * (three_k / 24);
    index = tile * (three_k / 6) + in_tile * (t.tile_columns / 6);
    signs = signs_at + tile * (three_k / 24) + in_tile * (t.tile_columns / 24);
    pairs = pairs_at + tile * (two_k / 4) + in_tile * (kPairColumns / 4);
    index_step = t.tile_rows * (t.tile_columns / 6);
    signs_step = t.tile_rows * (t.tile_columns / 24);
    pair_step = t.tile_rows * (kPairColumns / 4);
  }
};

// 32 rows by 24 columns: 4 x 32 bytes of indices, 16 words of signs.
void read_triples(const std::uint8_t* index, const std::uint8_t* signs, const CodesOut& codes, std::int64_t row,
                  std::int64_t byte) {
  std::array<std::uint16_t, 16> words{};
  std::memcpy(words.data(), signs, sizeof words);
  for (std::int64_t r = 0; r < kBlockRows; ++r) {
    // The signs of this row are at bits 15, 13 ... 1.
    const unsigned sign = static_cast<unsigned>(words[static_cast<std::size_t>(r % 16)]) << (r / 16);
    std::uint64_t bits = 0;
    for (int i = 0; i < 4; ++i) {
      const unsigned first = sign >> (15 - 4 * i) & 1, second = sign >> (13 - 4 * i) & 1;
      bits |= std::uint64_t{kTables.codes[index[32 * i + place(r)] | first << 8 | second << 9]} << (12 * i);
    }
    std::memcpy(codes.row(row + r) + byte, &bits, 6);
  }
}

void write_triples(const CodesIn& codes, std::int64_t row, std::int64_t byte, std::uint8_t* index,
                   std::uint8_t* signs) {
  std::array<std::uint16_t, 16> words{};
  for (std::int64_t r = 0; r < kBlockRows; ++r) {
    std::uint32_t low = 0;  // two loads: a word assembled in memory stalls its load
    std::uint16_t high = 0;
    std::memcpy(&low, codes.row(row + r) + byte, sizeof low);
    std::memcpy(&high, codes.row(row + r) + byte + 4, sizeof high);
    const std::uint64_t bits = low | std::uint64_t{high} << 32;
    unsigned sign = 0;
    for (int i = 0; i < 4; ++i) {
      const unsigned first = kTables.index[bits >> (12 * i) & 63], second = kTables.index[bits >> (12 * i + 6) & 63];
      index[32 * i + place(r)] = static_cast<std::uint8_t>((first & 15) << 4 | (second & 15));
      sign |= (first >> 4) << (15 - 4 * i) | (second >> 4) << (13 - 4 * i);
    }
    words[static_cast<std::size_t>(r % 16)] |= static_cast<std::uint16_t>(sign >> (r / 16));
  }
  std::memcpy(signs, words.data(), sizeof words);
}

// The bytes before the trailer; k must be at least kMinK.
std::int64_t code_bytes(std::int64_t n, std::int64_t k) {
  // Unsigned, because n * k / 3 * 5 may be more than 2^63.
  const auto triples = static_cast<std::uint64_t>((k - kMinK) * n / 3) * 5 / 8;
  return static_cast<std::int64_t>(round_up(triples + 64 * static_cast<std::uint64_t>(n), 32));
}

}  // namespace

Status Traits::check(const LayoutSpec& spec, std::int64_t n, std::int64_t k) {
  constexpr std::string_view kWhere = "layout";
  const LutTiles& t = spec.tiles;
  if (t.block_rows != kBlockRows) return bad_tiles(spec, "bmm is 32");
  if (t.tile_rows < 1 || t.tile_rows > kMaxTileSize || t.tile_rows % kBlockRows != 0)
    return bad_tiles(spec, "bm is a multiple of 32");
  if (t.tile_columns < 1 || t.tile_columns > kMaxTileSize || t.tile_columns % kSignColumns != 0)
    return bad_tiles(spec, "bk is a multiple of 24");
  TERN_RETURN_IF_ERROR(check_multiples(spec, n, t.tile_rows, k, 1, "its tiles have bm rows"));
  if (k < kMinK) return error(Code::unsupported, kWhere, "tl2 holds k of {} and more, not {} x {}", kMinK, n, k);
  const std::int64_t rest = k % t.tile_columns;
  if (rest % kPairColumns != 0)
    return error(Code::unsupported, kWhere, "tl2 holds k if k modulo {} is a multiple of {}, not {} x {}",
                 t.tile_columns, kPairColumns, n, k);
  if (const LayoutShape made = shape(t, n, k); made.used_bytes > made.code_bytes)  // more than 256 columns are pairs
    return error(Code::unsupported, kWhere,
                 "tl2 has too few bytes for the last {} of {} columns, which remain after whole tiles of {}", rest, k,
                 t.tile_columns);
  return {};
}

LayoutShape Traits::shape(const LutTiles& t, std::int64_t n, std::int64_t k) {
  const std::int64_t three_k = k / t.tile_columns * t.tile_columns;
  const std::int64_t indices = n * (three_k / 6), signs = n * (three_k / 24), pairs = n * ((k - three_k) / 4);
  LayoutShape made = with_trailer(code_bytes(n, k), indices + signs + pairs, kBlockRows);
  made.part_bytes = {indices, signs, pairs};
  made.parts = 3;
  return made;
}

void Traits::to_i2(const RowPiece& p, const LutTiles& t, const std::uint8_t* bytes, const CodesOut& codes) {
  for (std::int64_t row = 0; row < p.count; row += kBlockRows) {
    Block block(p, t, p.first + row);
    for (std::int64_t c = 0; c < block.three_k; c += t.tile_columns) {
      for (std::int64_t i = 0; i < t.tile_columns / kSignColumns; ++i)
        read_triples(bytes + block.index + 128 * i, bytes + block.signs + 32 * i, codes, row, c / 4 + 6 * i);
      block.index += block.index_step;
      block.signs += block.signs_step;
    }
    for (std::int64_t c = block.three_k; c < p.k; c += kPairColumns, block.pairs += block.pair_step)
      for (std::int64_t i = 0; i < kPairColumns / 4; ++i)
        for (std::int64_t r = 0; r < kBlockRows; ++r)
          codes.row(row + r)[c / 4 + i] = tl1::kTables.to_i2[bytes[block.pairs + 32 * i + place(r)]];
  }
}

void Traits::from_i2(const RowPiece& p, const LutTiles& t, const CodesIn& codes, std::uint8_t* bytes) {
  for (std::int64_t row = 0; row < p.count; row += kBlockRows) {
    Block block(p, t, p.first + row);
    for (std::int64_t c = 0; c < block.three_k; c += t.tile_columns) {
      for (std::int64_t i = 0; i < t.tile_columns / kSignColumns; ++i)
        write_triples(codes, row, c / 4 + 6 * i, bytes + block.index + 128 * i, bytes + block.signs + 32 * i);
      block.index += block.index_step;
      block.signs += block.signs_step;
    }
    for (std::int64_t c = block.three_k; c < p.k; c += kPairColumns, block.pairs += block.pair_step)
      for (std::int64_t i = 0; i < kPairColumns / 4; ++i)
        for (std::int64_t r = 0; r < kBlockRows; ++r)
          bytes[block.pairs + 32 * i + place(r)] = tl1::kTables.from_i2[codes.row(row + r)[c / 4 + i]];
  }
}

}  // namespace tern::tl2
