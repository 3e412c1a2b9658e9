// The order in which GPU kernels read weights of 2, 4 or 8 bits: tiles of 16 rows by 128 columns. A tile holds the
// weight operands of four matrix instructions (m16n8k32, or a warp's share of m64nNk32). A lane reads its part of a
// tile with one 16-byte load per 2 bits of weight, and gets each operand register with a shift and a mask.
//
//     lane 4g + t of a warp, load v, word i, byte b
//                               bit  7 6 | 5 4 | 3 2 | 1 0
//         trits (v = 0), of step        3     2     1     0
//         s4 (v = 0, 1), of step    2v + 1    |     2v
//         s8 (v = 0 .. 3), of step            v
//         row    16 * row tile + g + 8 * (i % 2)
//         column 128 * column tile + 32 * step + 16 * (i / 2) + 4t + b
//
// Weights are in two's complement. An operand has each weight in the highest bits of its byte, so it is the weight
// times 64 for trits, times 16 for 4 bits, and the weight itself for 8 bits. A tile is stored load by load, 512 bytes
// each; the tiles of sixteen rows follow each other along k. Rows and columns are padded to whole tiles with zeros.
// Scales of groups have the same order: those of sixteen rows for the first group, for the second, ..., then those of
// the next sixteen rows.
#pragma once

#include <cstdint>

#include "base/checked.h"
#include "tern/types.h"

namespace tern {

// How a lane reads a tile, for each number of bits of a weight.
template <int kBits_>
struct MmaWeights {
  static_assert(kBits_ == 2 || kBits_ == 4 || kBits_ == 8);
  static constexpr int kBits = kBits_;
  static constexpr int kLoads = kBits / 2;  // of 16 bytes, per lane
  static constexpr int kTileBytes = 512 * kLoads;
  static constexpr int kUnitLog = 8 - kBits;  // a weight of 1 is 2^kUnitLog in a register
  static constexpr int kUnit = 1 << kUnitLog;
  static constexpr int kStepsOfLoad = 8 / kBits;
  // The most columns whose sums fit: 128 * 2^(kBits - 1) * kUnit * k < 2^31, for trits 128 * kUnit * k < 2^31.
  static constexpr std::int64_t kMaxK = (std::int64_t{1} << (kBits == 2 ? 18 : 17)) - 1;

  static constexpr int load_of(int step) { return step / kStepsOfLoad; }
  // Register i of a step's operand, from word i of the step's load.
  static constexpr std::uint32_t operand(std::uint32_t word, int step) {
    constexpr std::uint32_t kMask = (0xFFU << kUnitLog & 0xFFU) * 0x01010101U;
    return word << (kUnitLog - kBits * (step % kStepsOfLoad)) & kMask;
  }
  // Word i of a load of lane 4g + t, from the canonical row of that word; zeros after k. Only for 4 and 8 bits, because
  // canonical codes of trits are not in two's complement.
  static constexpr std::uint32_t word(const std::uint8_t* row, std::int64_t k, std::int64_t column_tile, int load,
                                      int i, int t) {
    static_assert(kBits > 2);
    std::uint32_t word = 0;
    for (int s = 0; s < kStepsOfLoad; ++s)
      for (int b = 0; b < 4; ++b) {
        const std::int64_t column = 128 * column_tile + 32 * (load * kStepsOfLoad + s) + 16 * (i / 2) + 4 * t + b;
        if (column >= k) continue;
        const std::int64_t bit = column * kBits;
        word |= (row[bit / 8] >> (bit % 8) & ((1U << kBits) - 1)) << (8 * b + kBits * s);
      }
    return word;
  }
  // The dot product, from a sum with weights that were kUnit times too large. Exact: the sum is a multiple of kUnit.
  static constexpr std::int32_t dot_of(std::int32_t sum) { return sum >> kUnitLog; }
};

// The bits of a weight in linear on a GPU.
constexpr int mma_bits(Format format) { return format == Format::s8 ? 8 : format == Format::s4 ? 4 : 2; }

struct TileMma {
  static constexpr std::int64_t kRows = 16, kColumns = 128;

  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t row_tiles = 0;
  std::int64_t column_tiles = 0;
  int bits = 2;

  static constexpr TileMma of(std::int64_t n, std::int64_t k, int bits) {
    return {.n = n, .k = k, .row_tiles = ceil_div(n, kRows), .column_tiles = ceil_div(k, kColumns), .bits = bits};
  }
  [[nodiscard]] constexpr std::int64_t tile_bytes() const { return std::int64_t{256} * bits; }
  [[nodiscard]] constexpr std::int64_t bytes() const { return row_tiles * column_tiles * tile_bytes(); }

  // The position of the weight of a row and column: the byte, and its lowest bit in it.
  struct Place {
    std::int64_t byte;
    int bit;
  };
  [[nodiscard]] constexpr Place place(std::int64_t row, std::int64_t column) const {
    const std::int64_t r = row % kRows, c = column % kColumns;
    const std::int64_t lane = 4 * (r % 8) + c % 16 / 4, word = r / 8 + 2 * (c % 32 / 16);
    const std::int64_t bit = bits * (c / 32);  // 8 bits per load
    return {
        (row / kRows * column_tiles + column / kColumns) * tile_bytes() + bit / 8 * 512 + lane * 16 + word * 4 + c % 4,
        static_cast<int>(bit % 8)};
  }
  // The index of the scale of a row and group. Scales have the order of the tiles: those of sixteen rows are adjacent.
  static constexpr std::int64_t scale_at(std::int64_t row, std::int64_t group, std::int64_t groups) {
    return (row / kRows * groups + group) * kRows + row % kRows;
  }
  [[nodiscard]] constexpr int value(const std::uint8_t* packed, std::int64_t row, std::int64_t column) const {
    const Place at = place(row, column);
    const int code = packed[at.byte] >> at.bit & ((1 << bits) - 1);
    return code >> (bits - 1) != 0 ? code - (1 << bits) : code;
  }
};
static_assert(TileMma::scale_at(17, 0, 1) == 17 && TileMma::scale_at(17, 2, 5) == (5 + 2) * 16 + 1);
static_assert(MmaWeights<2>::operand(0x00000004, 1) == 64 && MmaWeights<2>::operand(0xC0, 3) == 0xC0);
static_assert(MmaWeights<4>::operand(0x0000FF12, 0) == 0xF020 && MmaWeights<4>::operand(0x0000FF12, 1) == 0xF010);
static_assert(MmaWeights<8>::operand(0x80FF7F12, 3) == 0x80FF7F12);

}  // namespace tern
