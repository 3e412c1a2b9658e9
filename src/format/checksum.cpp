// XXH64 over the two buffers of a quantized tensor as if they lay one after the other.
#include "format/checksum.h"

#include <bit>

#define XXH_INLINE_ALL  // no symbol of xxhash leaves this file, so it cannot clash with an application's own copy
#include <xxhash.h>

namespace tern {

// The scales enter as the bytes of little-endian floats.
static_assert(std::endian::native == std::endian::little, "swap the scales before they are hashed");

std::uint64_t checksum(std::span<const std::uint8_t> codes, std::span<const std::uint8_t> scales) {
  const auto bytes = static_cast<std::int64_t>(codes.size());
  return checksum_rows({codes.data(), 1, bytes, bytes}, scales);
}

std::uint64_t checksum_rows(const StridedBytes& codes, std::span<const std::uint8_t> scales) {
  XXH64_state_t state;
  XXH64_reset(&state, 0);
  const auto add = [&state](const std::uint8_t* data, std::size_t bytes) {
    if (bytes > 0) XXH64_update(&state, data, bytes);
  };
  for (std::int64_t row = 0; row < codes.rows; ++row)
    add(codes.data + row * codes.stride_bytes, static_cast<std::size_t>(codes.row_bytes));
  add(scales.data(), scales.size());
  return XXH64_digest(&state);
}

}  // namespace tern
