// The order in which CPU kernels read weights: sixteen rows side by side, so that each vector lane holds one row and no
// sum over lanes is needed.
//
//     byte 4r + c of a line     7 6 | 5 4 | 3 2 | 1 0
//     code (trit + 1) of        12+c  8+c   4+c   c       the line's columns, all of row r of the tile
//
// A line is 64 bytes and holds 16 rows. Its columns depend on the format:
//     i2   16 columns, as shown
//     b3   20 columns: byte 4r + c has the five trits of columns c, 4+c, 8+c, 12+c and 16+c (tile16_b3.h)
//     s4    8 columns, code = weight + 8: column c in the low half of byte 4r + c, 4+c in the high half
//     s8    4 columns, code = weight + 128
// A shift and a mask leave bytes of four neighbouring columns for each row, which is what byte dot-product instructions
// sum. A row is one segment, or one segment per group of scales. Segments are padded to whole lines, rows to whole
// tiles; padding is the code of zero.
#pragma once

#include <cstdint>

#include "base/checked.h"
#include "format/tile16_b3.h"
#include "tern/types.h"

namespace tern {

struct Tile16 {
  static constexpr std::int64_t kRows = 16;
  static constexpr std::int64_t kLineBytes = 64;
  static constexpr std::uint32_t kPadding = 0x55'55'55'55;  // of one row in a line of i2

  Format format = Format::i2;
  std::int64_t line_columns = 16;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t segment_elems = 0;  // columns of every segment but perhaps the last
  std::int64_t segments = 0;
  std::int64_t segment_lines = 0;
  std::int64_t last_lines = 0;  // of the last segment
  std::int64_t tile_lines = 0;
  std::int64_t tiles = 0;

  static Tile16 of(std::int64_t n, std::int64_t k, const Granularity& granularity, Format format) {
    Tile16 t{.format = format,
             .line_columns = columns_of(format),
             .n = n,
             .k = k,
             .segment_elems = k,
             .segments = k > 0 ? 1 : 0};
    if (granularity.kind == Granularity::Kind::group && granularity.group_size < k) {
      t.segment_elems = granularity.group_size;
      t.segments = ceil_div(k, t.segment_elems);
    }
    t.segment_lines = ceil_div(t.segment_elems, t.line_columns);
    t.last_lines = k > 0 ? ceil_div(k - (t.segments - 1) * t.segment_elems, t.line_columns) : 0;
    t.tile_lines = k > 0 ? (t.segments - 1) * t.segment_lines + t.last_lines : 0;
    t.tiles = ceil_div(n, kRows);
    return t;
  }

  [[nodiscard]] std::int64_t tile_bytes() const { return tile_lines * kLineBytes; }
  [[nodiscard]] std::int64_t bytes() const { return tiles * tile_bytes(); }
  // The columns of a tile with its padding; the activations have as many.
  [[nodiscard]] std::int64_t columns() const { return tile_lines * line_columns; }
  [[nodiscard]] std::int64_t elems_of(std::int64_t segment) const {
    return segment + 1 < segments ? segment_elems : k - segment * segment_elems;
  }
  [[nodiscard]] std::int64_t lines_of(std::int64_t segment) const {
    return segment + 1 < segments ? segment_lines : last_lines;
  }
  [[nodiscard]] int value(const std::uint8_t* packed, std::int64_t row, std::int64_t kk) const {
    const std::int64_t column = kk / segment_elems * segment_lines * line_columns + kk % segment_elems;
    const std::uint8_t* line = packed + row / kRows * tile_bytes() + column / line_columns * kLineBytes;
    const std::uint8_t byte = line[4 * (row % kRows) + column % 4];
    const auto place = static_cast<int>(column % line_columns / 4);
    switch (format) {
      case Format::b3: return kTile16B3.read(byte, place) - 1;
      case Format::s8: return byte - 128;
      case Format::s4: return ((byte >> (4 * place)) & 15) - 8;
      default: return ((byte >> (2 * place)) & 3) - 1;
    }
  }
  // The index of the scale of a row and segment: the 16 scales of a segment are adjacent and the segments of a tile
  // follow each other, so that scales are read in the order of the codes.
  static constexpr std::int64_t scale_at(std::int64_t row, std::int64_t segment, std::int64_t segments) {
    return (row / kRows * segments + segment) * kRows + row % kRows;
  }
  // Whether activations that were laid out for one shape can be used with the other.
  [[nodiscard]] bool same_columns(const Tile16& other) const {
    return format == other.format && k == other.k && segment_elems == other.segment_elems;
  }

  static constexpr std::int64_t columns_of(Format format) {
    switch (format) {
      case Format::b3: return 20;
      case Format::s8: return 4;
      case Format::s4: return 8;
      default: return 16;
    }
  }

  // Converts one row of a line from its canonical i2 codes, and back: transposes 4 x 4 codes.
  static constexpr std::uint32_t transpose(std::uint32_t codes) {
    std::uint32_t swap = (codes ^ (codes >> 6)) & 0x00CC'00CCU;
    codes ^= swap ^ (swap << 6);
    swap = (codes ^ (codes >> 12)) & 0x0000'F0F0U;
    return codes ^ swap ^ (swap << 12);
  }
};

static_assert(Tile16::scale_at(5, 0, 1) == 5 && Tile16::scale_at(35, 2, 3) == (2 * 3 + 2) * 16 + 3);
static_assert(Tile16::transpose(0b00'00'00'10) == 0b00'00'00'10);               // column 0
static_assert(Tile16::transpose(0b00'00'10'00) == 0b00'00'00'10 << 8);          // column 1 goes to byte 1
static_assert(Tile16::transpose(0b00'00'00'10 << 8) == 0b00'00'10'00);          // column 4 to bits 2 and 3 of byte 0
static_assert(Tile16::transpose(0b10'00'00'00 << 16) == 0b00'10'00'00U << 24);  // column 11: byte 3, bits 4 and 5

}  // namespace tern
