// What PackedWeights owns, and how it is made from canonical bytes.
#pragma once

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
  const std::uint8_t* codes = nullptr;  // in the device's memory
  // One scale for a whole tensor, otherwise in the order of PackedScales.
  const float* scales = nullptr;
  std::size_t bytes = 0;
  std::uint64_t checksum = 0;
  Tensor memory;  // empty when the memory is the caller's
};

// What tiles hold: trits, and weights of 8 and 4 bits, whose scales may have either sign or be 0.
constexpr bool is_trits(Format format) { return format == Format::i2 || format == Format::b3; }
constexpr bool is_weights(Format format) { return is_trits(format) || format == Format::s8 || format == Format::s4; }

namespace dot {

inline constexpr std::int64_t kMaxK = (std::int64_t{1} << 24) - 1;  // beyond it an int32 sum might not fit
// The most products of int8 and a weight whose sum is certain to fit an int32: a product is at most 128 times the
// largest weight.
constexpr std::int64_t max_summed(Format format) {
  const std::int64_t largest = format == Format::s8 ? 128 : format == Format::s4 ? 8 : 1;
  return ((std::int64_t{1} << 31) - 1) / (128 * largest);
}
static_assert(max_summed(Format::i2) == kMaxK && max_summed(Format::s8) == (1 << 17) - 1);

}  // namespace dot

// Rows of canonical codes with their scales. Packed tiles keep the format.
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

struct RowReader;

// Fills state.codes and state.scales, which are in `memory`, from codes on the host. Each thread is the first to touch
// what it will read. With a reader, rows come from it (row_pieces.h).
Result<PackedWeights::State> pack_weights(const CanonicalWeights& weights, const RowReader* reader,
                                          const Threads& threads, std::span<std::byte> memory);
inline Result<PackedWeights::State> pack_weights(const CanonicalWeights& weights, const Threads& threads,
                                                 std::span<std::byte> memory) {
  return pack_weights(weights, nullptr, threads, memory);
}

// Checks that scales are finite and, for trits, above 0.
Status check_weight_scales(const CanonicalWeights& weights);
// The error of a code that is no trit: of the code at `at`, whose row is `codes`, and of the first such code among rows
// that begin at `first_row`, where there must be one.
struct CodePlace {
  std::int64_t row = 0;
  std::int64_t column = 0;
};
Error invalid_code_at(Format format, const std::uint8_t* codes, std::int64_t k, CodePlace at);
Error invalid_code_error(const CanonicalWeights& rows, std::int64_t first_row);
std::span<const std::uint8_t> scale_bytes(const CanonicalWeights& weights);

// Scales in the order in which kernels read them, on CPUs and GPUs: the scales of a tile's 16 rows for its first group,
// for its next groups, then those of the next tile. Padding rows have scale 1.
struct PackedScales {
  std::int64_t rows = 0;  // of whole tiles
  std::int64_t count = 0;
  static PackedScales of(std::int64_t n, std::int64_t k, const Granularity& granularity);
  void arrange(const CanonicalWeights& weights, float* scales) const;
  static constexpr auto scale_at = Tile16::scale_at;
};
static_assert(PackedScales::scale_at(35, 2, 3) == TileMma::scale_at(35, 2, 3));  // both devices have one order

}  // namespace tern
