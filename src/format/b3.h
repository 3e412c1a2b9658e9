// Format b3: five trits a byte, the first in the highest place of a number in base 3.
//
//   v = 81 d0 + 27 d1 + 9 d2 + 3 d3 + d4     digit d = trit + 1, so v is 0..242
//   byte = ceil(v * 256 / 243)               v / 243 as a fraction of 256; padding is trit 0, digit 1
//
// To decode, multiply by 3: bits 8 and 9 are then the next digit, and the low byte is the fraction of the remaining
// digits. So digit j is (q * 3) >> 8 with q = byte * 3^j mod 256. Thirteen byte values are no such fraction; they are
// invalid.
#pragma once

#include <array>
#include <cstdint>

namespace tern::b3 {

constexpr std::uint8_t pack(std::array<int, 5> trits) {
  unsigned v = 0;
  for (const int trit : trits) v = 3 * v + static_cast<unsigned>(trit + 1);
  return static_cast<std::uint8_t>((v * 256 + 242) / 243);
}

// Whether five trits encode to this byte. byte = ceil(256 v / 243) for some v if 243 * byte = 256 v + rest, rest < 243.
constexpr bool valid(std::uint8_t byte) { return (byte * 243U & 255U) < 243; }

inline constexpr int kInvalid = 2;  // read() returns it for all five digits of an invalid byte

constexpr int read(std::uint8_t byte, int j) {
  constexpr std::array<unsigned, 5> kPower = {1, 3, 9, 27, 81};
  if (!valid(byte)) return kInvalid;
  const unsigned q = byte * kPower[static_cast<std::size_t>(j)] & 255U;
  return static_cast<int>(q * 3 >> 8) - 1;
}

// The five codes of every byte.
inline constexpr auto kCodes = [] {
  std::array<std::array<std::int8_t, 5>, 256> codes{};
  for (unsigned byte = 0; byte < 256; ++byte)
    for (unsigned j = 0; j < 5; ++j)
      codes[byte][j] = static_cast<std::int8_t>(read(static_cast<std::uint8_t>(byte), static_cast<int>(j)));
  return codes;
}();

inline constexpr std::uint8_t kPadding = 0x80;

static_assert(pack({-1, -1, -1, -1, -1}) == 0 && pack({1, 1, 1, 1, 1}) == 255);
static_assert(pack({0, 0, 0, 0, 0}) == kPadding);    // v = 121: 30976 / 243 = 127.5
static_assert(pack({-1, -1, -1, -1, 0}) == 2);       // v = 1: 256 / 243 = 1.05
static_assert(read(2, 3) == -1 && read(2, 4) == 0);  // 2 * 81 = 162, 162 * 3 = 256 + 230
static_assert(valid(0) && !valid(1) && valid(2) && valid(255));

}  // namespace tern::b3
