// What PackedWeights owns, and how it is made from canonical bytes.
#pragma once

#include <functional>

#include "device/threads.h"
#include "format/tile16.h"
#include "format/tile_mma.h"
#include "tern/linear.h"

namespace tern {

struct PackedWeights::State {
  std::int64_t n = 0;
  std::int64_t k = 0;
  Format format = Format::i2;
  Granularity granularity;
  DeviceId device = {};
  Tile16 tile;                          // the order of the codes on a CPU; on a GPU they are a TileMma
  const std::uint8_t* codes = nullptr;  // of the device
  // One scale for a tensor; else on a CPU [segments][scale_stride], so that neighbouring rows lie side by side, and on
  // a GPU as TileMma::scale_at() says
  const float* scales = nullptr;
  std::int64_t scale_stride = 0;  // on a CPU
  std::size_t bytes = 0;
  std::uint64_t checksum = 0;
  Tensor memory;  // empty when the memory is the caller's
};

// What linear multiplies: trits, and weights of 8 and 4 bits, whose scales may have either sign or be 0.
constexpr bool is_trits(Format format) { return format == Format::i2 || format == Format::b3; }
constexpr bool linear_takes(Format format) { return is_trits(format) || format == Format::s8 || format == Format::s4; }

// Rows of canonical codes with their scales, checked. Tiles keep the format.
struct CanonicalWeights {
  const std::uint8_t* codes = nullptr;
  std::int64_t stride_bytes = 0;
  const float* scales = nullptr;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Granularity granularity;
  Format format = Format::i2;
};

Result<std::size_t> packed_weights_bytes(std::int64_t n, std::int64_t k, const Granularity& granularity, Format format,
                                         DeviceKind device = DeviceKind::cpu);
constexpr std::size_t packed_alignment(DeviceKind device) { return device == DeviceKind::cpu ? 64 : 256; }

// Fills state.codes and state.scales, which lie in `memory`; each thread touches first what it would read.
Result<PackedWeights::State> pack_weights(const CanonicalWeights& weights, const Threads& threads,
                                          std::span<std::byte> memory);

// The same from rows that a reader brings in pieces, so that they never lie in canonical order all at once.
struct RowReader {
  std::int64_t row_block = 1;  // pieces begin and end at multiples of it
  // Writes rows first .. first + count - 1 in the weights' format, dense, and their scales where weights.scales points.
  // Called by several threads at once.
  std::function<Status(std::int64_t first, std::int64_t count, std::uint8_t* codes)> read;
};
Result<PackedWeights::State> pack_weights(const CanonicalWeights& scales_and_shape, const RowReader& reader,
                                          const Threads& threads, std::span<std::byte> memory);

// Finite, and above 0 where the format is one of trits.
Status check_weight_scales(const CanonicalWeights& weights);
// The error of the first code that is no trit; there must be one.
Error invalid_code_error(const CanonicalWeights& weights);
std::uint64_t checksum_of(const CanonicalWeights& weights);

// Scales as kernels read them, [segments][stride], or on a GPU with their tiles; those of rows that are not there
// are 1.
struct PackedScales {
  std::int64_t stride = 0;
  std::int64_t count = 0;
  static PackedScales of(std::int64_t n, std::int64_t k, const Granularity& granularity);
  void arrange(const CanonicalWeights& weights, float* scales) const;
  void arrange_for_gpu(const CanonicalWeights& weights, float* scales) const;

 private:
  template <class Place>
  void put(const CanonicalWeights& weights, float* scales, Place place) const;  // place(row, segment)
};

}  // namespace tern
