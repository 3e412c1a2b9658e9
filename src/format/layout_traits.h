// What the header of a layout tells about its bytes: a struct, which its row in layouts.cpp names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "format/rows.h"
#include "tern/layout.h"

namespace tern {

enum class ScalesIn : std::uint8_t { none, trailer, blocks };

inline constexpr std::size_t kTrailerBytes = 32;  // bitnet.cpp's, after the codes: the f32 scale of the tensor, zeros

// A layout of one shape.
struct LayoutShape {
  std::int64_t row_block = 1;
  std::int64_t code_bytes = 0;  // a trailer begins here
  std::int64_t used_bytes = 0;  // bytes that hold codes; zeros follow
  std::int64_t bytes = 0;
  ScalesIn scales = ScalesIn::none;
  std::int64_t blocks_per_row = 0;     // each with a scale
  std::int64_t block_bytes = 0;        // from one block to the next
  std::int64_t block_scale_bytes = 0;  // from the start of a block to its scale
  // The used bytes may be several parts, one after the other, to each of which every row contributes.
  std::int64_t parts = 1;
  std::array<std::int64_t, 3> part_bytes{};

  // The byte offset of a block's scale; blocks are counted over all rows.
  [[nodiscard]] std::int64_t scale_at(std::int64_t block) const { return block * block_bytes + block_scale_bytes; }
  [[nodiscard]] std::int64_t bytes_of_part(std::int64_t part) const {
    return parts == 1 ? used_bytes : part_bytes[static_cast<std::size_t>(part)];
  }
};

// What most layouts have in common; the struct of a layout inherits it and hides what differs. It adds
//
//     static LayoutShape shape(const LutTiles&, std::int64_t n, std::int64_t k);   of a shape that was checked
//     static void to_i2(const RowPiece&, const LutTiles&, const std::uint8_t* bytes, const CodesOut&);
//     static void from_i2(const RowPiece&, const LutTiles&, const CodesIn&, std::uint8_t* bytes);
//
// Bits that encode no trit become code 3.
struct LayoutTraits {
  static constexpr ScalesIn kScales = ScalesIn::none;
  static constexpr std::int64_t kScaleColumns = 0;  // with ScalesIn::blocks: how many share a scale
  static constexpr std::int64_t kRows = 1;          // n is a multiple of it
  static constexpr std::int64_t kColumns = 1;       // k is a multiple of it
  static constexpr std::string_view kBecause{};     // why
  static constexpr bool kTiles = false;             // whether its bytes depend on LayoutSpec::tiles
  // A byte has codes of this many rows, which lie n / kRuns rows apart. If several, any rows can be read, but only all
  // of them be written.
  static constexpr std::int64_t kRuns = 1;

  static Status check(const LayoutSpec&, std::int64_t /*n*/, std::int64_t /*k*/) { return {}; }  // beyond multiples
};

// For shape(): `lines` of line_bytes each.
constexpr LayoutShape rows_alone(std::int64_t lines, std::int64_t line_bytes, std::int64_t row_block) {
  const std::int64_t bytes = lines * line_bytes;
  return {.row_block = row_block, .code_bytes = bytes, .used_bytes = bytes, .bytes = bytes};
}
constexpr LayoutShape with_trailer(std::int64_t code_bytes, std::int64_t used_bytes, std::int64_t row_block) {
  return {.row_block = row_block,
          .code_bytes = code_bytes,
          .used_bytes = used_bytes,
          .bytes = code_bytes + static_cast<std::int64_t>(kTrailerBytes),
          .scales = ScalesIn::trailer};
}
constexpr LayoutShape in_blocks(std::int64_t n, std::int64_t blocks, std::int64_t block_bytes,
                                std::int64_t scale_bytes) {
  const std::int64_t bytes = n * blocks * block_bytes;
  return {.row_block = 1,
          .code_bytes = bytes,
          .used_bytes = bytes,
          .bytes = bytes,
          .scales = ScalesIn::blocks,
          .blocks_per_row = blocks,
          .block_bytes = block_bytes,
          .block_scale_bytes = scale_bytes};
}

// For check(): that n is a multiple of `rows` and k of `columns`.
Status check_multiples(const LayoutSpec& spec, std::int64_t n, std::int64_t rows, std::int64_t k, std::int64_t columns,
                       std::string_view because);
// For check(): the error of tiles that the layout cannot have.
Error bad_tiles(const LayoutSpec& spec, std::string_view what);
inline constexpr std::int64_t kMaxTileSize = std::int64_t{1} << 24;  // so that no product of tile sizes overflows

}  // namespace tern
