// Tiles canonical i2 weights: 4 x 4 blocks of 2-bit codes are transposed, in parallel over tiles.
#include "ops/linear/packed_weights.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "base/errors.h"
#include "format/checksum.h"
#include "format/format.h"
#include "memory/workspace.h"
#include "ops/ranges.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "pack";

// Each byte's four codes as the low bits of four bytes.
constexpr std::array<std::uint32_t, 256> kSpread = [] {
  std::array<std::uint32_t, 256> spread{};
  for (std::uint32_t byte = 0; byte < 256; ++byte)
    for (std::uint32_t j = 0; j < 4; ++j) spread[byte] |= ((byte >> (2 * j)) & 3U) << (8 * j);
  return spread;
}();
static_assert(kSpread[0b11'10'01'00] == 0x03'02'01'00);

std::int64_t scale_count(const Tile4& tile, const Granularity& granularity, std::int64_t stride) {
  return granularity.kind == Granularity::Kind::tensor ? 1 : std::max<std::int64_t>(tile.segments, 1) * stride;
}
std::int64_t scale_stride_of(const Tile4& tile) { return static_cast<std::int64_t>(round_up(tile.n, 16)); }

class Packer {
 public:
  Packer(const CanonicalWeights& weights, const Tile4& tile, std::uint8_t* out) : w_(weights), tile_(tile), out_(out) {}

  // Returns whether every code is a trit.
  bool pack_tile(std::int64_t t) const {
    std::uint8_t* out = out_ + t * tile_.tile_bytes;
    std::uint32_t bad = 0;
    for (std::int64_t s = 0; s < tile_.segments; ++s) {
      const std::int64_t first = s * tile_.segment_elems, elems = tile_.elems_of(s);
      std::uint8_t* segment = out + s * tile_.segment_bytes;
      std::memset(segment, Tile4::kPadding, static_cast<std::size_t>(tile_.bytes_of(s)));
      if (first % 4 == 0)
        bad |= pack_columns(t, first, elems, segment);
      else
        bad |= pack_odd_columns(t, first, elems, segment);
    }
    return bad == 0;
  }

 private:
  [[nodiscard]] const std::uint8_t* row(std::int64_t t, std::int64_t r) const {
    const std::int64_t n = t * Tile4::kRows + r;
    return n < w_.n ? w_.codes + n * w_.stride_bytes : nullptr;
  }

  // Columns that begin on a byte: four at a time.
  std::uint32_t pack_columns(std::int64_t t, std::int64_t first, std::int64_t elems, std::uint8_t* out) const {
    std::uint32_t bad = 0;
    const std::int64_t whole = elems / 4;
    const std::uint8_t* rows[Tile4::kRows];
    for (std::int64_t r = 0; r < Tile4::kRows; ++r) {
      const std::uint8_t* p = row(t, r);
      rows[r] = p == nullptr ? nullptr : p + first / 4;
    }
    for (std::int64_t i = 0; i < whole; ++i) {
      std::uint32_t word = 0;
      for (int r = 0; r < Tile4::kRows; ++r) {
        const unsigned byte = rows[r] == nullptr ? Tile4::kPadding : rows[r][i];
        bad |= byte & (byte >> 1) & 0x55U;
        word |= kSpread[byte] << (2 * r);
      }
      for (int j = 0; j < 4; ++j) out[4 * i + j] = static_cast<std::uint8_t>(word >> (8 * j));
    }
    return bad | pack_odd_columns(t, first + 4 * whole, elems - 4 * whole, out + 4 * whole);
  }

  // Any columns, one at a time.
  std::uint32_t pack_odd_columns(std::int64_t t, std::int64_t first, std::int64_t elems, std::uint8_t* out) const {
    std::uint32_t bad = 0;
    for (std::int64_t i = 0; i < elems; ++i) {
      unsigned byte = 0;
      for (std::int64_t r = 0; r < Tile4::kRows; ++r) {
        const std::uint8_t* p = row(t, r);
        const std::int64_t column = first + i;
        const unsigned code = p == nullptr ? 1U : (p[column / 4] >> (2 * (column % 4))) & 3U;
        bad |= code == 3 ? 1U : 0U;
        byte |= code << (2 * r);
      }
      out[i] = static_cast<std::uint8_t>(byte);
    }
    return bad;
  }

  const CanonicalWeights& w_;
  const Tile4& tile_;
  std::uint8_t* out_;
};

Error code3_error(const CanonicalWeights& w) {
  for (std::int64_t n = 0; n < w.n; ++n) {
    const std::int64_t column = first_invalid_code(Format::i2, Scheme::absmean, w.codes + n * w.stride_bytes, w.k);
    if (column >= 0 && column < w.k)
      return error_at(n * w.k + column, Code::invalid_quantized_value, kWhere,
                      "codes[{}, {}] (element {}) is 3, which is no trit", n, column, n * w.k + column);
  }
  return error(Code::internal, kWhere, "codes were refused that are all trits");
}

}  // namespace

Result<std::size_t> packed_weights_bytes(std::int64_t n, std::int64_t k, const Granularity& granularity) {
  TERN_RETURN_IF_ERROR(check_extent(kWhere, n, k, DType::u8, granularity));
  const auto too_large = [&] {
    return error(Code::invalid_argument, kWhere, "{} x {} weights by {} need more than 2^63 bytes", n, k,
                 name(granularity));
  };
  const std::int64_t limit = std::int64_t{1} << 56;
  if (n > limit || k > limit) return too_large();
  const Tile4 tile = Tile4::of(n, k, granularity);
  const auto codes = checked_mul(tile.tiles, tile.tile_bytes);
  // Before the scales, of which there are a quarter as many at most: their product cannot overflow then.
  if (!codes || *codes > limit) return too_large();
  const auto scales = checked_mul(scale_count(tile, granularity, scale_stride_of(tile)), std::int64_t{sizeof(float)});
  if (!scales || *scales > limit) return too_large();
  return round_up(static_cast<std::size_t>(*codes), kWorkspaceAlignment) + static_cast<std::size_t>(*scales);
}

Result<PackedWeights::State> pack_weights(const CanonicalWeights& w, const Threads& threads,
                                          std::span<std::byte> memory) {
  const Tile4 tile = Tile4::of(w.n, w.k, w.granularity);
  PackedWeights::State state;
  state.tile = tile;
  state.granularity = w.granularity;
  state.bytes = memory.size();
  state.scale_stride = scale_stride_of(tile);
  WorkspaceLedger ledger(memory.data());
  auto* codes = ledger.book<std::uint8_t>(static_cast<std::size_t>(tile.bytes()));
  auto* scales = ledger.book<float>(0);

  const Packer packer(w, tile, codes);
  std::atomic<bool> bad{false};
  const int slots = static_cast<int>(std::clamp<std::int64_t>(tile.bytes() / 16384, 1, threads.count()));
  threads.run(slots, [&](int slot) {
    const std::int64_t begin = tile.tiles * slot / slots, end = tile.tiles * (slot + 1) / slots;
    for (std::int64_t t = begin; t < end; ++t)
      if (!packer.pack_tile(t)) bad = true;
  });
  if (bad) return code3_error(w);

  const auto copy_scale = [&w](std::int64_t i, float* to) { std::memcpy(to, w.scales + i, sizeof *to); };  // unaligned
  const std::int64_t per_row = std::max<std::int64_t>(tile.segments, 1);
  std::fill_n(scales, scale_count(tile, w.granularity, state.scale_stride), 1.0F);
  if (w.granularity.kind == Granularity::Kind::tensor) {
    if (w.n > 0 && w.k > 0) copy_scale(0, scales);
  } else if (w.k > 0) {
    for (std::int64_t n = 0; n < w.n; ++n)
      for (std::int64_t s = 0; s < per_row; ++s) copy_scale(n * per_row + s, scales + s * state.scale_stride + n);
  }
  state.codes = codes;
  state.scales = scales;
  const auto scale_bytes = static_cast<std::size_t>(make_ranges(w.n, w.k, w.granularity).total) * sizeof(float);
  state.checksum = checksum_rows({w.codes, w.n, row_bytes(Format::i2, w.k), w.stride_bytes},
                                 {reinterpret_cast<const std::uint8_t*>(w.scales), scale_bytes});
  return state;
}

}  // namespace tern
