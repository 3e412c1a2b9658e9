// The bytes of a layout, from their first to their last, as pieces that some rows of codes make by themselves.
//
//     most layouts   a piece is some rows: bytes and rows have one order
//     hf_packed      a piece has as many rows from each quarter of the matrix
//     tl2            three parts follow each other; the rows of a piece make bytes in each, so they are asked for
//     thrice
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tern/layout.h"

namespace tern {

class RowsSource;

class LayoutPieces {
 public:
  // With about so many elements a piece. Pieces begin where the rows of `source_block` do, if that can be had.
  static Result<LayoutPieces> make(const LayoutSpec& spec, std::int64_t n, std::int64_t k, std::int64_t source_block,
                                   std::int64_t piece_elems);

  // Whether piece i is rows(i): else rows are asked for in another order, some of them more than once.
  [[nodiscard]] bool in_order() const { return runs_ == 1 && parts_ == 1; }
  [[nodiscard]] std::int64_t count() const { return per_part_ * parts_; }

  // Rows in their order, whatever the layout: no more than most_rows() in each of row_pieces().
  [[nodiscard]] std::int64_t row_pieces() const { return row_pieces_; }
  [[nodiscard]] RowRange rows(std::int64_t piece) const;
  [[nodiscard]] std::int64_t most_rows() const { return step_ * runs_; }

  // Codes of a piece's rows, and room for the scales that come with them.
  Status read(const RowsSource& source, std::int64_t piece, std::uint8_t* codes, std::vector<float>& scales) const;
  // The bytes of a piece from its codes, which are trits; `out` has room for room_bytes(), and in order every piece but
  // the last has as many. Scales are those of the rows where the layout has them in blocks.
  Result<std::span<const std::uint8_t>> encode(std::int64_t piece, const std::uint8_t* codes,
                                               std::span<const float> scales, std::uint8_t* out) const;
  [[nodiscard]] std::size_t room_bytes() const { return room_bytes_; }
  // What follows the last piece: padding and the scale of the tensor, where the layout has it.
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
