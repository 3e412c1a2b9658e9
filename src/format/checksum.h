// The checksum of a quantized tensor, the same wherever it is computed.
#pragma once

#include <cstdint>
#include <span>

namespace tern {

// XXH64, seed 0, of the canonical bytes of the codes, then of the scales.
std::uint64_t checksum(std::span<const std::uint8_t> codes, std::span<const std::uint8_t> scales);

}  // namespace tern
