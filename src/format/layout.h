// What every layout has: the rows that lie together, its size, and its codes to i2 and back.
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
  std::int64_t used_bytes = 0;  // of them; zeros from here on
  std::int64_t bytes = 0;
  ScalesIn scales = ScalesIn::none;
  std::int64_t blocks_per_row = 0;     // with a scale each
  std::int64_t block_bytes = 0;        // from one to the next
  std::int64_t block_scale_bytes = 0;  // from a block's begin to its scale

  // Where the scale of a block lies, counted over all rows.
  [[nodiscard]] std::int64_t scale_at(std::int64_t block) const { return block * block_bytes + block_scale_bytes; }
};
ScalesIn scales_in_bytes(Layout layout);

// n and k are not negative and n * k + n is below 2^61. A shape that does not fit is an unsupported that says why.
Result<LayoutShape> shape_of(const LayoutSpec& spec, std::int64_t n, std::int64_t k);

// Pieces of whole row blocks. Bits that no trit gives become code 3.
void layout_to_i2(const LayoutSpec& spec, const RowPiece& piece, const std::uint8_t* bytes, const CodesOut& codes);
// Every code must be a trit.
void layout_from_i2(const LayoutSpec& spec, const RowPiece& piece, const CodesIn& codes, std::uint8_t* bytes);

// Whether a row of k i2 codes has no code 3; what lies behind its last code does not matter.
bool all_trits(const std::uint8_t* row, std::int64_t k);

}  // namespace tern
