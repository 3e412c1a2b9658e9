// Format i2: four trits a byte, the first in the low bits.
//
//   bit 7 6  5 4  3 2  1 0
//      [t3 ][t2 ][t1 ][t0 ]   code 0 1 2 = trit -1 0 +1; 3 never appears; padding is code 1
#pragma once

#include <array>
#include <cstdint>

namespace tern::i2 {

constexpr std::uint8_t pack(std::array<int, 4> trits) {
  unsigned byte = 0;
  for (unsigned j = 0; j < 4; ++j) byte |= static_cast<unsigned>(trits[j] + 1) << (2 * j);
  return static_cast<std::uint8_t>(byte);
}

constexpr int read(std::uint8_t byte, int j) { return ((byte >> (2 * j)) & 3) - 1; }

// Whether any of the four codes is 3: both bits of a pair are set.
constexpr bool has_code3(std::uint8_t byte) { return (byte & (byte >> 1) & 0x55) != 0; }

inline constexpr std::uint8_t kPadding = 0b01'01'01'01;

static_assert(pack({-1, 0, 1, 0}) == 0b01'10'01'00);
static_assert(pack({0, 0, 0, 0}) == kPadding);
static_assert(read(0b01'10'01'00, 0) == -1 && read(0b01'10'01'00, 2) == 1);
static_assert(has_code3(0b11'00'00'00) && has_code3(0b01'01'11'01) && !has_code3(0b10'01'10'01));

}  // namespace tern::i2
