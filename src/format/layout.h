// Properties of the layouts: the rows that are stored together, the size, and the conversion to i2 and back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/rows.h"
#include "tern/layout.h"

namespace tern {

enum class ScalesIn : std::uint8_t { none, trailer, blocks };

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

  // The byte offset of a block's scale; blocks are counted over all rows.
  [[nodiscard]] std::int64_t scale_at(std::int64_t block) const { return block * block_bytes + block_scale_bytes; }
};
ScalesIn scales_in_bytes(Layout layout);

// n and k must not be negative, and n * k + n must be below 2^61. An unsupported error says why a shape does not fit.
Result<LayoutShape> shape_of(const LayoutSpec& spec, std::int64_t n, std::int64_t k);

// The piece must consist of whole row blocks. Bits that no trit encodes to become code 3.
void layout_to_i2(const LayoutSpec& spec, const RowPiece& piece, const std::uint8_t* bytes, const CodesOut& codes);
// Every code must be a trit.
void layout_from_i2(const LayoutSpec& spec, const RowPiece& piece, const CodesIn& codes, std::uint8_t* bytes);

// Whether none of the k i2 codes of a row is 3; bits after the last code are ignored.
bool all_trits(const std::uint8_t* row, std::int64_t k);

}  // namespace tern
