// XXH64 over the two buffers of a quantized tensor as if they lay one after the other.
#include "format/checksum.h"

#include <bit>

#define XXH_INLINE_ALL  // no symbol of xxhash leaves this file, so it cannot clash with an application's own copy
#include <xxhash.h>

namespace tern {

// The scales enter as the bytes of little-endian floats.
static_assert(std::endian::native == std::endian::little, "swap the scales before they are hashed");

std::uint64_t checksum(std::span<const std::uint8_t> codes, std::span<const std::uint8_t> scales) {
  XXH64_state_t state;
  XXH64_reset(&state, 0);
  for (const auto part : {codes, scales})
    if (!part.empty()) XXH64_update(&state, part.data(), part.size());
  return XXH64_digest(&state);
}

}  // namespace tern
