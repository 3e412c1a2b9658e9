// Format q4_0 of ggml: blocks of 32 columns, an f16 scale d and 16 bytes of codes; k is a multiple of 32.
//
//     bytes 0, 1         d, little-endian, of any sign
//     byte 2 + i         7 6 5 4 | 3 2 1 0        i = 0..15
//     element             16 + i      i           bits = code + 8: the value is code * d
#pragma once

#include <cstdint>

namespace tern::q4_0 {

inline constexpr std::int64_t kBlock = 32, kBlockBytes = 18;

// Bits of element i of a block.
constexpr unsigned bits(const std::uint8_t* block, std::int64_t i) {
  return i < 16 ? block[2 + i] & 15U : block[2 + i - 16] >> 4U;
}

// Writes the codes of a block as in a row of s4: two's complement, neighbours in one byte.
constexpr void to_s4(const std::uint8_t* block, std::uint8_t* codes) {
  for (std::int64_t i = 0; i < kBlock; i += 2)
    codes[i / 2] = static_cast<std::uint8_t>((bits(block, i) | bits(block, i + 1) << 4U) ^ 0x88U);
}

constexpr void from_codes(std::uint16_t d, const std::int8_t* codes, std::uint8_t* block) {
  block[0] = static_cast<std::uint8_t>(d & 255U);
  block[1] = static_cast<std::uint8_t>(d >> 8U);
  for (std::int64_t i = 0; i < 16; ++i)
    block[2 + i] = static_cast<std::uint8_t>((codes[i] + 8) | (codes[i + 16] + 8) << 4);
}

constexpr bool first_and_last_codes_keep_their_places() {
  std::int8_t codes[kBlock] = {-8, 7};
  codes[31] = -1;
  std::uint8_t block[kBlockBytes] = {}, row[kBlock / 2] = {};
  from_codes(0x3C00, codes, block);
  to_s4(block, row);
  return block[1] == 0x3C && block[2] == 0x80 && block[17] == 0x78 && row[0] == 0x78 && row[15] == 0xF0;
}
static_assert(first_and_last_codes_keep_their_places());

}  // namespace tern::q4_0
