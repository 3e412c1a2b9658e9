// The rows of a problem's matrices as one continuous range, which threads and streams divide among themselves.
#pragma once

#include <algorithm>

#include "base/checked.h"
#include "ops/linear/linear.h"

namespace tern::linear {

struct Piece {
  const Matrix* matrix = nullptr;
  std::int64_t row = 0, end = 0;
};

// Rows from `first` to `last`, which count tiles from the start of `matrix` and may go on into the next matrices.
class Rows {
 public:
  Rows(const Params& params, std::size_t matrix, std::int64_t first, std::int64_t last)
      : params_(params), matrix_(matrix), row_(first * kTileRows), last_(last * kTileRows) {}

  // The next rows of one matrix, at most `most`; false when there are none.
  bool next(std::int64_t most, Piece& piece) {
    for (; row_ < last_; ++matrix_) {
      const std::int64_t n = params_.matrices[matrix_].spec.n, padded = ceil_div(n, kTileRows) * kTileRows;
      if (row_ < n) {
        piece = {&params_.matrices[matrix_], row_, std::min({row_ + most, n, last_})};
        row_ = piece.end == n ? padded : piece.end;
        return true;
      }
      row_ -= padded;
      last_ -= padded;
    }
    return false;
  }
  // Part i of n parts of about equal size.
  [[nodiscard]] Rows part(std::int64_t i, std::int64_t n) const {
    const std::int64_t tiles = (last_ - row_) / kTileRows;
    Rows some = *this;
    some.row_ = row_ + tiles * i / n * kTileRows;
    some.last_ = row_ + tiles * (i + 1) / n * kTileRows;
    return some;
  }

 private:
  const Params& params_;
  std::size_t matrix_;
  std::int64_t row_, last_;  // relative to the matrix's first row
};

}  // namespace tern::linear
