// Splits the bytes of a layout into consecutive pieces, each of which depends only on some rows of codes.
//
//     most layouts   a piece is some rows: bytes and rows have the same order
//     hf_packed      a piece has equally many rows from each quarter of the matrix
//     tl2            has three parts one after the other; a piece's rows contribute to each, so they are read
//                    three times
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tern/layout.h"

namespace tern {

class RowsSource;

class LayoutPieces {
 public:
  // Pieces have about `piece_elems` elements. They begin at multiples of `source_block` rows if possible.
  static Result<LayoutPieces> make(const LayoutSpec& spec, std::int64_t n, std::int64_t k, std::int64_t source_block,
                                   std::int64_t piece_elems);

  // Whether piece i is rows(i). Otherwise rows are read in another order, some of them more than once.
  [[nodiscard]] bool in_order() const { return runs_ == 1 && parts_ == 1; }
  [[nodiscard]] std::int64_t count() const { return per_part_ * parts_; }

  // All rows in order, for any layout: row_pieces() pieces of at most most_rows() rows.
  [[nodiscard]] std::int64_t row_pieces() const { return row_pieces_; }
  [[nodiscard]] RowRange rows(std::int64_t piece) const;
  [[nodiscard]] std::int64_t most_rows() const { return step_ * runs_; }

  // Reads the codes of a piece's rows, and the scales that come with them.
  Status read(const RowsSource& source, std::int64_t piece, std::uint8_t* codes, std::vector<float>& scales) const;
  // Encodes a piece from its codes, which must be trits. `out` has room for room_bytes() bytes; if in_order(), every
  // piece but the last fills them. `scales` are those of the rows, for layouts with a scale per block.
  Result<std::span<const std::uint8_t>> encode(std::int64_t piece, const std::uint8_t* codes,
                                               std::span<const float> scales, std::uint8_t* out) const;
  [[nodiscard]] std::size_t room_bytes() const { return room_bytes_; }
  // What follows the last piece: padding and, if the layout stores it, the tensor's scale.
  [[nodiscard]] std::vector<std::uint8_t> tail(float scale) const;

 private:
  LayoutSpec spec_;
  std::int64_t n_ = 0, k_ = 0;
  std::int64_t runs_ = 1, parts_ = 1;
  std::int64_t step_ = 1;  // rows of a run
  std::int64_t per_part_ = 0, row_pieces_ = 0;
  std::size_t room_bytes_ = 0;
};

}  // namespace tern
