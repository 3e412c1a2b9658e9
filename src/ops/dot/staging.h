// How the driver of an op stages activations for the loops of an instruction set: strides of tokens and panels.
#pragma once

#include <numeric>

#include "base/checked.h"
#include "format/tile16.h"
#include "ops/dot/simd_table.h"

namespace tern::dot {

// Padded columns, rounded up to cache lines, plus one line: tokens a page apart would compete for the same cache sets.
inline std::int64_t token_stride(const Tile16& tile) { return ceil_div(tile.columns(), 64) * 64 + 64; }

// The fewest lines whose columns are a multiple of kPanelColumns.
inline std::int64_t panel_lines(const Tile16& tile) {
  return kPanelColumns / std::gcd(kPanelColumns, tile.line_columns);
}
inline std::int64_t panels_of(const Tile16& tile, std::int64_t lines) {
  return ceil_div(lines * tile.line_columns, kPanelColumns);
}
// Activations staged as tiles: the tiles of a segment, and the bytes of a panel.
inline std::int64_t segment_tiles(const Tile16& tile) { return panels_of(tile, tile.segment_lines); }
inline std::int64_t panel_stride(const Tile16& tile) {
  return ((tile.segments - 1) * segment_tiles(tile) + panels_of(tile, tile.last_lines)) * kPanelBytes;
}

inline const TileLoops& loops_of(const SimdTable& table, Format format) {
  switch (format) {
    case Format::b3: return table.b3;
    case Format::s8: return table.s8;
    case Format::s4: return table.s4;
    default: return table.i2;
  }
}

}  // namespace tern::dot
