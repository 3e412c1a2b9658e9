// Format u2: four codes of 0..3 a byte, the first in the low bits.
//
//   bit 7 6  5 4  3 2  1 0
//      [q3 ][q2 ][q1 ][q0 ]   padding is 0
#pragma once

#include <array>
#include <cstdint>

namespace tern::u2 {

constexpr std::uint8_t pack(std::array<int, 4> codes) {
  unsigned byte = 0;
  for (unsigned j = 0; j < 4; ++j) byte |= static_cast<unsigned>(codes[j]) << (2 * j);
  return static_cast<std::uint8_t>(byte);
}

constexpr int read(std::uint8_t byte, int j) { return (byte >> (2 * j)) & 3; }

static_assert(pack({0, 1, 2, 3}) == 0b11'10'01'00);
static_assert(read(0b11'10'01'00, 1) == 1 && read(0b11'10'01'00, 3) == 3);

}  // namespace tern::u2
