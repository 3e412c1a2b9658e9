// What PackedWeights owns, and how it is made from canonical bytes.
#pragma once

#include "device/threads.h"
#include "format/tile16.h"
#include "tern/linear.h"

namespace tern {

struct PackedWeights::State {
  Tile16 tile;
  Granularity granularity;
  const std::uint8_t* codes = nullptr;  // tile.bytes()
  // One scale for a tensor; else [segments][scale_stride], so that neighbouring rows lie side by side
  const float* scales = nullptr;
  std::int64_t scale_stride = 0;
  std::size_t bytes = 0;
  std::uint64_t checksum = 0;
  Tensor memory;  // empty when the memory is the caller's
};

// Rows of canonical codes, i2 or b3, with their scales, checked. Tiles keep the format.
struct CanonicalWeights {
  const std::uint8_t* codes = nullptr;
  std::int64_t stride_bytes = 0;
  const float* scales = nullptr;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Granularity granularity;
  Format format = Format::i2;
};

Result<std::size_t> packed_weights_bytes(std::int64_t n, std::int64_t k, const Granularity& granularity, Format format);

// Fills state.codes and state.scales, which lie in `memory`; each thread touches first what it would read.
Result<PackedWeights::State> pack_weights(const CanonicalWeights& weights, const Threads& threads,
                                          std::span<std::byte> memory);

}  // namespace tern
