// CRC-32 sixteen bytes at a time: table t[j][b] is the CRC of byte b followed by j zero bytes, so the sixteen look-ups
// of a step do not wait for one another.
#include "io/crc32.h"

#include <array>
#include <bit>
#include <cstring>

namespace tern {
namespace {

constexpr std::size_t kStepBytes = 16;
using Tables = std::array<std::array<std::uint32_t, 256>, kStepBytes>;

constexpr Tables make_tables() {
  Tables t{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320U : 0U);
    t[0][byte] = crc;
  }
  for (std::size_t j = 1; j < kStepBytes; ++j)
    for (std::size_t byte = 0; byte < 256; ++byte) t[j][byte] = (t[j - 1][byte] >> 8) ^ t[0][t[j - 1][byte] & 0xFF];
  return t;
}

constexpr Tables kTables = make_tables();
static_assert(kTables[0][1] == 0x77073096U);
static_assert(std::endian::native == std::endian::little, "a step reads little-endian words");

// Bytes b0 b1 b2 b3 of a word, b0 lowest; `after` bytes of the step follow the word.
std::uint32_t look_up(std::uint32_t word, std::size_t after) {
  return kTables[after + 3][word & 0xFF] ^ kTables[after + 2][(word >> 8) & 0xFF] ^
         kTables[after + 1][(word >> 16) & 0xFF] ^ kTables[after][word >> 24];
}

}  // namespace

std::uint32_t crc32(std::uint32_t crc, std::span<const std::uint8_t> bytes) {
  crc = ~crc;
  const std::uint8_t* p = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= kStepBytes; left -= kStepBytes, p += kStepBytes) {
    std::array<std::uint32_t, 4> w{};
    std::memcpy(w.data(), p, kStepBytes);
    crc = look_up(w[0] ^ crc, 12) ^ look_up(w[1], 8) ^ look_up(w[2], 4) ^ look_up(w[3], 0);
  }
  for (; left > 0; --left, ++p) crc = (crc >> 8) ^ kTables[0][(crc ^ *p) & 0xFF];
  return ~crc;
}

}  // namespace tern
