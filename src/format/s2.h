// Format s2: four codes of -2..1 a byte in two's complement, the first in the low bits.
//
//   bit 7 6  5 4  3 2  1 0
//      [q3 ][q2 ][q1 ][q0 ]   bits 00 01 10 11 = code 0 +1 -2 -1; padding is 0
#pragma once

#include <array>
#include <cstdint>

namespace tern::s2 {

constexpr std::uint8_t pack(std::array<int, 4> codes) {
  unsigned byte = 0;
  for (unsigned j = 0; j < 4; ++j) byte |= (static_cast<unsigned>(codes[j]) & 3U) << (2 * j);
  return static_cast<std::uint8_t>(byte);
}

constexpr int read(std::uint8_t byte, int j) {
  const int bits = (byte >> (2 * j)) & 3;
  return bits >= 2 ? bits - 4 : bits;
}

static_assert(pack({0, 1, -2, -1}) == 0b11'10'01'00);
static_assert(read(0b11'10'01'00, 1) == 1 && read(0b11'10'01'00, 2) == -2 && read(0b11'10'01'00, 3) == -1);

}  // namespace tern::s2
