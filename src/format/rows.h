// Rows of a matrix that are converted between a layout and canonical i2.
#pragma once

#include <cstdint>

namespace tern {

// Rows first .. first + count - 1 of n x k weights. The layout's bytes are always those of the whole matrix.
struct RowPiece {
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// The i2 codes of the rows of a piece: the first row is at `data`, the next ones `stride` bytes apart.
template <class Byte>
struct RowCodes {
  Byte* data = nullptr;
  std::int64_t stride = 0;
  [[nodiscard]] Byte* row(std::int64_t i) const { return data + i * stride; }
};
using CodesOut = RowCodes<std::uint8_t>;
using CodesIn = RowCodes<const std::uint8_t>;

}  // namespace tern
