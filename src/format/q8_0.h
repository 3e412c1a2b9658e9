// Format q8_0 of ggml: blocks of 32 columns, an f16 scale d and 32 codes of int8; k is a multiple of 32.
//
//     bytes 0, 1         d, little-endian, of any sign
//     byte 2 + i         code i: the value is code * d
#pragma once

#include <cstdint>
#include <cstring>

namespace tern::q8_0 {

inline constexpr std::int64_t kBlock = 32, kBlockBytes = 34;

// Writes the codes of a block as in a row of s8.
inline void to_s8(const std::uint8_t* block, std::uint8_t* codes) { std::memcpy(codes, block + 2, kBlock); }

inline void from_codes(std::uint16_t d, const std::int8_t* codes, std::uint8_t* block) {
  block[0] = static_cast<std::uint8_t>(d & 255U);
  block[1] = static_cast<std::uint8_t>(d >> 8U);
  std::memcpy(block + 2, codes, kBlock);
}

}  // namespace tern::q8_0
