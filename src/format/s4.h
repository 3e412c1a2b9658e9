// Format s4: two codes of -8..7 a byte in two's complement, the first in the low bits.
//
//   bit 7 6 5 4  3 2 1 0
//      [  q1   ][  q0   ]   bits 0000 .. 0111 = code 0 .. 7, 1000 .. 1111 = -8 .. -1; padding is 0
#pragma once

#include <array>
#include <cstdint>

namespace tern::s4 {

constexpr std::uint8_t pack(std::array<int, 2> codes) {
  return static_cast<std::uint8_t>((static_cast<unsigned>(codes[0]) & 15U) |
                                   ((static_cast<unsigned>(codes[1]) & 15U) << 4));
}

constexpr int read(std::uint8_t byte, int j) {
  const int bits = (byte >> (4 * j)) & 15;
  return bits >= 8 ? bits - 16 : bits;
}

static_assert(pack({-8, 7}) == 0b0111'1000 && pack({3, -1}) == 0b1111'0011);
static_assert(read(0b0111'1000, 0) == -8 && read(0b0111'1000, 1) == 7 && read(0b1111'0011, 1) == -1);

}  // namespace tern::s4
