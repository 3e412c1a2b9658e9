// The order in which GPU kernels read ternary weights: tiles of 16 rows by 128 columns, each the operands of four
// matrix instructions (m16n8k32, or a warp's share of m64nNk32), so that a lane reads its part of a tile with one
// 16-byte load and gets each register of an operand with a shift and a mask.
//
//     lane 4g + t of a warp, word i, byte b     7 6 | 5 4 | 3 2 | 1 0
//     trit (two's complement) of step              3     2     1     0
//         row    16 * row tile + g + 8 * (i % 2)
//         column 128 * column tile + 32 * step + 16 * (i / 2) + 4t + b
//
// word << (6 - 2 * step) & 0xC0C0C0C0 is register i of that step, each byte 64 times its trit. The tiles of sixteen
// rows lie one behind the other along k. Rows and columns are padded to whole tiles with zeros.
#pragma once

#include <cstdint>

#include "base/checked.h"

namespace tern {

struct TileMma {
  static constexpr std::int64_t kRows = 16, kColumns = 128, kBytes = 512;
  static constexpr int kUnit = 64;  // what a trit of 1 is in a register

  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t row_tiles = 0;
  std::int64_t column_tiles = 0;

  static constexpr TileMma of(std::int64_t n, std::int64_t k) {
    return {.n = n, .k = k, .row_tiles = ceil_div(n, kRows), .column_tiles = ceil_div(k, kColumns)};
  }
  [[nodiscard]] constexpr std::int64_t bytes() const { return row_tiles * column_tiles * kBytes; }

  // Where the trit of a row and column lies: the byte, and its lowest bit.
  struct Place {
    std::int64_t byte;
    int bit;
  };
  [[nodiscard]] constexpr Place place(std::int64_t row, std::int64_t column) const {
    const std::int64_t r = row % kRows, c = column % kColumns;
    const std::int64_t lane = 4 * (r % 8) + c % 16 / 4, word = r / 8 + 2 * (c % 32 / 16);
    return {(row / kRows * column_tiles + column / kColumns) * kBytes + lane * 16 + word * 4 + c % 4,
            static_cast<int>(2 * (c / 32))};
  }
  [[nodiscard]] constexpr int trit(const std::uint8_t* packed, std::int64_t row, std::int64_t column) const {
    const Place at = place(row, column);
    const int code = (packed[at.byte] >> at.bit) & 3;
    return code == 3 ? -1 : code;
  }
};

}  // namespace tern
