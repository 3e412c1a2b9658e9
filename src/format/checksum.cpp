// XXH64 over the two buffers of a quantized tensor, as if they were contiguous.
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

struct RunningChecksum::State {
  XXH64_state_t xxh;
};

RunningChecksum::RunningChecksum() : state_(std::make_unique<State>()) { XXH64_reset(&state_->xxh, 0); }
RunningChecksum::~RunningChecksum() = default;
void RunningChecksum::add(std::span<const std::uint8_t> bytes) {
  if (!bytes.empty()) XXH64_update(&state_->xxh, bytes.data(), bytes.size());
}
std::uint64_t RunningChecksum::value() const { return XXH64_digest(&state_->xxh); }

std::uint64_t RunningChecksum::value_with(std::span<const std::uint8_t> bytes) const {
  XXH64_state_t copy;
  XXH64_copyState(&copy, &state_->xxh);
  if (!bytes.empty()) XXH64_update(&copy, bytes.data(), bytes.size());
  return XXH64_digest(&copy);
}

std::uint64_t checksum_rows(const StridedBytes& codes, std::span<const std::uint8_t> scales) {
  RunningChecksum sum;
  for (std::int64_t row = 0; row < codes.rows; ++row)
    sum.add({codes.data + row * codes.stride_bytes, static_cast<std::size_t>(codes.row_bytes)});
  sum.add(scales);
  return sum.value();
}

}  // namespace tern
