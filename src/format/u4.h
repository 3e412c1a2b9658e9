// Format u4: two codes of 0..15 a byte, the first in the low bits.
//
//   bit 7 6 5 4  3 2 1 0
//      [  q1   ][  q0   ]   padding is 0
#pragma once

#include <array>
#include <cstdint>

namespace tern::u4 {

constexpr std::uint8_t pack(std::array<int, 2> codes) {
  return static_cast<std::uint8_t>(static_cast<unsigned>(codes[0]) | (static_cast<unsigned>(codes[1]) << 4));
}

constexpr int read(std::uint8_t byte, int j) { return (byte >> (4 * j)) & 15; }

static_assert(pack({1, 15}) == 0b1111'0001);
static_assert(read(0b1111'0001, 0) == 1 && read(0b1111'0001, 1) == 15);

}  // namespace tern::u4
