// CRC-32 as zip uses it (polynomial 0x04C11DB7, reflected).
#pragma once

#include <cstdint>
#include <span>

namespace tern {

// Continues `crc`, which is 0 for the first piece: crc32(crc32(0, a), b) is the CRC of a then b.
std::uint32_t crc32(std::uint32_t crc, std::span<const std::uint8_t> bytes);

}  // namespace tern
