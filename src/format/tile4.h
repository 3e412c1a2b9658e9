// The order in which CPU kernels read ternary weights: four rows share each byte, and a tile of four rows is one
// stream.
//
//     byte kk of tile t     7 6 | 5 4 | 3 2 | 1 0
//     code (trit + 1) of    4t+3  4t+2  4t+1  4t      all at column kk
//
// Columns come in segments: one for a whole row, or one per group of scales. A segment is padded to whole lines of 64
// columns, rows to whole tiles; padding is code 1, a zero. One activation serves four rows, one sequential stream
// serves a thread, and any vector of up to 64 bytes meets no odd end.
#pragma once

#include <cstdint>

#include "base/checked.h"
#include "tern/types.h"

namespace tern {

struct Tile4 {
  static constexpr std::int64_t kRows = 4;
  static constexpr std::int64_t kLine = 64;
  static constexpr std::uint8_t kPadding = 0b01'01'01'01;

  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t segment_elems = 0;  // columns of every segment but perhaps the last
  std::int64_t segments = 0;
  std::int64_t segment_bytes = 0;  // of one segment of a tile: padded columns
  std::int64_t last_bytes = 0;     // of the last segment
  std::int64_t tile_bytes = 0;
  std::int64_t tiles = 0;

  static Tile4 of(std::int64_t n, std::int64_t k, const Granularity& granularity) {
    Tile4 t{.n = n, .k = k, .segment_elems = k, .segments = k > 0 ? 1 : 0};
    if (granularity.kind == Granularity::Kind::group && granularity.group_size < k) {
      t.segment_elems = granularity.group_size;
      t.segments = ceil_div(k, t.segment_elems);
    }
    t.segment_bytes = ceil_div(t.segment_elems, kLine) * kLine;
    t.last_bytes = k > 0 ? ceil_div(k - (t.segments - 1) * t.segment_elems, kLine) * kLine : 0;
    t.tile_bytes = k > 0 ? (t.segments - 1) * t.segment_bytes + t.last_bytes : 0;
    t.tiles = ceil_div(n, kRows);
    return t;
  }

  [[nodiscard]] std::int64_t bytes() const { return tiles * tile_bytes; }
  // Where a column lies in a tile.
  [[nodiscard]] std::int64_t column(std::int64_t kk) const {
    return kk / segment_elems * segment_bytes + kk % segment_elems;
  }
  [[nodiscard]] std::int64_t elems_of(std::int64_t segment) const {
    return segment + 1 < segments ? segment_elems : k - segment * segment_elems;
  }
  [[nodiscard]] std::int64_t bytes_of(std::int64_t segment) const {
    return segment + 1 < segments ? segment_bytes : last_bytes;
  }
  [[nodiscard]] int trit(const std::uint8_t* packed, std::int64_t row, std::int64_t kk) const {
    return ((packed[row / kRows * tile_bytes + column(kk)] >> (2 * (row % kRows))) & 3) - 1;
  }
  // Whether activations laid out for one shape serve the other.
  [[nodiscard]] bool same_columns(const Tile4& other) const {
    return k == other.k && tile_bytes == other.tile_bytes && segments == other.segments;
  }
};

static_assert(Tile4::kLine % 16 == 0 && (Tile4::kPadding & 3) == 1);

}  // namespace tern
