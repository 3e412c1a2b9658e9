// Formats i8, s8 and u8: one code a byte, in two's complement or without a sign.
#pragma once

#include <array>
#include <cstdint>

namespace tern::signed_byte {
constexpr std::uint8_t pack(std::array<int, 1> codes) { return static_cast<std::uint8_t>(codes[0]); }
constexpr int read(std::uint8_t byte, int) { return static_cast<std::int8_t>(byte); }
}  // namespace tern::signed_byte

namespace tern::unsigned_byte {
constexpr std::uint8_t pack(std::array<int, 1> codes) { return static_cast<std::uint8_t>(codes[0]); }
constexpr int read(std::uint8_t byte, int) { return byte; }
}  // namespace tern::unsigned_byte
