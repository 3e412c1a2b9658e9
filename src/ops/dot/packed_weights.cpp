// Packs canonical weights into tiles, in parallel over tiles.
#include "ops/dot/packed_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/errors.h"
#include "base/views.h"
#include "format/format.h"
#include "format/invalid_value.h"
#include "format/ranges.h"
#include "memory/workspace.h"
#include "ops/dot/row_pieces.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "pack";

class Packer {
 public:
  Packer(const CanonicalWeights& weights, const Tile16& tile, std::uint8_t* out)
      : w_(weights), tile_(tile), out_(out) {}

  // Returns whether every code is valid in its format.
  bool pack_tile(std::int64_t t) const {
    std::uint8_t* line = out_ + t * tile_.tile_bytes();
    bool all = true;
    for (std::int64_t s = 0; s < tile_.segments; ++s) {
      const std::int64_t first = s * tile_.segment_elems, elems = tile_.elems_of(s);
      for (std::int64_t at = 0; at < elems; at += tile_.line_columns, line += Tile16::kLineBytes)
        for (std::int64_t r = 0; r < Tile16::kRows; ++r) {
          const std::int64_t row = t * Tile16::kRows + r, count = std::min(elems - at, tile_.line_columns);
          const std::uint8_t* codes = row < w_.n ? w_.codes + row * w_.stride_bytes : nullptr;
          all = pack_row_of_line(codes, first + at, count, line + 4 * r) && all;
        }
    }
    return all;
  }

 private:
  [[nodiscard]] bool pack_row_of_line(const std::uint8_t* codes, std::int64_t column, std::int64_t count,
                                      std::uint8_t* out) const {
    switch (tile_.format) {
      case Format::b3: return pack_b3(codes, column, count, out);
      case Format::s8:
        std::memset(out, 0x80, 4);
        if (codes != nullptr)
          for (std::int64_t i = 0; i < count; ++i) out[i] = codes[column + i] ^ 0x80U;
        return true;
      case Format::s4: return pack_s4(codes, column, count, out);
      default: return pack_i2(codes, column, count, out);
    }
  }
  // Packs one row of a line from its codes, from `column` on; a padding row has no codes.
  static bool pack_i2(const std::uint8_t* codes, std::int64_t column, std::int64_t count, std::uint8_t* out) {
    std::uint32_t word = Tile16::kPadding;
    if (codes != nullptr && count == 16 && column % 4 == 0) {
      std::memcpy(&word, codes + column / 4, sizeof word);
    } else if (codes != nullptr) {
      for (std::int64_t i = 0; i < count; ++i) {
        const std::uint32_t code = (codes[(column + i) / 4] >> (2 * ((column + i) % 4))) & 3U;
        word ^= (code ^ 1U) << (2 * i);
      }
    }
    const bool trits = (word & (word >> 1) & 0x55'55'55'55U) == 0;
    word = Tile16::transpose(word);
    std::memcpy(out, &word, sizeof word);
    return trits;
  }
  static bool pack_b3(const std::uint8_t* codes, std::int64_t column, std::int64_t count, std::uint8_t* out) {
    bool trits = true;
    for (std::int64_t c = 0; c < 4; ++c) {
      std::size_t v = 0;
      for (std::int64_t i = c; i < 20; i += 4) {
        const int trit = codes != nullptr && i < count ? read_code(Format::b3, codes, column + i) : 0;
        trits = trits && trit <= 1;
        v = 3 * v + static_cast<std::size_t>(trit <= 1 ? trit + 1 : 0);
      }
      out[c] = kTile16B3.bytes[v];
    }
    return trits;
  }

  // Flipping the highest bit of a two's complement code adds 8. Columns 0 to 3 go to the low halves of four bytes, the
  // others to the high halves.
  static bool pack_s4(const std::uint8_t* codes, std::int64_t column, std::int64_t count, std::uint8_t* out) {
    std::memset(out, 0x88, 4);
    if (codes == nullptr) return true;
    for (std::int64_t i = 0; i < count; ++i) {
      const unsigned bits = codes[(column + i) / 2] >> (4 * ((column + i) % 2)) & 15U;
      out[i % 4] = static_cast<std::uint8_t>(out[i % 4] ^ bits << (i / 4 * 4));
    }
    return true;
  }

  const CanonicalWeights& w_;
  const Tile16& tile_;
  std::uint8_t* out_;
};

// A state whose codes and scales have their memory and are still to be filled in.
struct Places {
  PackedWeights::State state;
  std::uint8_t* codes = nullptr;
  float* scales = nullptr;

  Places(const CanonicalWeights& w, std::span<std::byte> memory) {
    state.n = w.n;
    state.k = w.k;
    state.format = w.format;
    state.granularity = w.granularity;
    state.tile = Tile16::of(w.n, w.k, w.granularity, w.format);
    state.bytes = memory.size();
    WorkspaceLedger ledger(memory.data());
    codes = ledger.book<std::uint8_t>(static_cast<std::size_t>(state.tile.bytes()));
    scales = ledger.book<float>(0);
    state.codes = codes;
    state.scales = scales;
  }
};

// Each thread is the first to touch what it will read, so that the pages are in memory close to it.
void touch_first(const Places& places, const Threads& threads) {
  constexpr std::int64_t kPage = 4096;
  const Tile16& tile = places.state.tile;
  const int slots = static_cast<int>(std::clamp<std::int64_t>(tile.bytes() / 16384, 1, threads.count()));
  threads.run(slots, [&](int slot) {
    const std::int64_t begin = tile.tiles * slot / slots * tile.tile_bytes(),
                       end = tile.tiles * (slot + 1) / slots * tile.tile_bytes();
    for (std::int64_t at = begin; at < end; at += kPage) places.codes[at] = 0;
  });
}

constexpr std::int64_t kPieceBytes = 4 << 20;  // canonical, for all threads together

// Packs parts of pieces into tiles as they arrive.
class TileSink final : public RowSink {
 public:
  TileSink(const Places& places, std::uint8_t* buffer) : places_(places), buffer_(buffer) {}
  Result<std::uint8_t*> room() override { return buffer_; }
  Status take_part(const CanonicalWeights& part, std::int64_t first) override {
    const Tile16& tile = places_.state.tile;
    const Packer packer(part, tile, places_.codes + first / Tile16::kRows * tile.tile_bytes());
    bool valid = true;
    for (std::int64_t t = 0; t < ceil_div(part.n, Tile16::kRows); ++t) valid = packer.pack_tile(t) && valid;
    return valid ? Status() : invalid_code_error(part, first);
  }
  Status take_piece(const CanonicalWeights& /*piece*/, std::int64_t /*first*/) override { return {}; }

 private:
  const Places& places_;
  std::uint8_t* buffer_;
};

}  // namespace

Error invalid_code_at(Format format, const std::uint8_t* codes, std::int64_t k, CodePlace at) {
  return with(invalid_code(format, Scheme::absmean, codes, k, at.column),
              error_at(at.row * k + at.column, Code::invalid_quantized_value, kWhere, "codes[{}, {}] (element {}) {}",
                       at.row, at.column, at.row * k + at.column,
                       format == Format::b3 ? "lies in a byte that no five trits give" : "is 3, which is no trit"));
}

Error invalid_code_error(const CanonicalWeights& w, std::int64_t first_row) {
  for (std::int64_t n = 0; n < w.n; ++n) {
    const std::uint8_t* row = w.codes + n * w.stride_bytes;
    const std::int64_t column = first_invalid_code(w.format, Scheme::absmean, row, w.k);
    if (column >= 0 && column < w.k) return invalid_code_at(w.format, row, w.k, {first_row + n, column});
  }
  return error(Code::internal, kWhere, "codes were refused that are all trits");
}

Status check_weight_scales(const CanonicalWeights& w) {
  const std::int64_t count = make_ranges(w.n, w.k, w.granularity).total;
  if (is_trits(w.format)) return check_scales(kWhere, "scales", w.scales, count);
  for (std::int64_t i = 0; i < count; ++i) {
    float scale = 0;
    std::memcpy(&scale, w.scales + i, sizeof scale);  // may be unaligned
    if (!std::isfinite(scale))
      return with(infinite_scale(scale),
                  error_at(i, Code::invalid_scale, kWhere, "scales[{}] is {}; it must be finite", i, scale));
  }
  return {};
}

std::span<const std::uint8_t> scale_bytes(const CanonicalWeights& w) {
  const auto count = static_cast<std::size_t>(make_ranges(w.n, w.k, w.granularity).total);
  return {reinterpret_cast<const std::uint8_t*>(w.scales), count * sizeof(float)};
}
PackedScales PackedScales::of(std::int64_t n, std::int64_t k, const Granularity& granularity) {
  const auto rows = static_cast<std::int64_t>(round_up(static_cast<std::size_t>(n), 16));
  if (granularity.kind == Granularity::Kind::tensor) return {rows, 1};
  return {rows, std::max<std::int64_t>(make_ranges(1, k, granularity).total, 1) * rows};
}

void PackedScales::arrange(const CanonicalWeights& w, float* scales) const {
  const auto copy_scale = [&w](std::int64_t i, float* to) { std::memcpy(to, w.scales + i, sizeof *to); };  // unaligned
  std::fill_n(scales, count, 1.0F);
  if (w.n == 0 || w.k == 0) return;
  if (w.granularity.kind == Granularity::Kind::tensor) return copy_scale(0, scales);
  const std::int64_t per_row = count / rows;
  for (std::int64_t n = 0; n < w.n; ++n)
    for (std::int64_t s = 0; s < per_row; ++s) copy_scale(n * per_row + s, scales + scale_at(n, s, per_row));
}

Result<std::size_t> packed_weights_bytes(std::int64_t n, std::int64_t k, const Granularity& granularity, Format format,
                                         DeviceKind device) {
  if (!is_weights(format))
    return error(Code::unsupported, kWhere, "{} codes are not weights of linear, which are i2, b3, s8 and s4",
                 name(format));
  TERN_RETURN_IF_ERROR(check_extent(kWhere, n, k, DType::u8, granularity));
  const auto too_large = [&] {
    return error(Code::invalid_argument, kWhere, "{} x {} weights by {} need more than 2^63 bytes", n, k,
                 name(granularity));
  };
  const std::int64_t limit = std::int64_t{1} << 56;
  if (n > limit || k > limit) return too_large();
  const bool on_gpu = device == DeviceKind::cuda;
  const Tile16 tile = Tile16::of(n, k, granularity, format);
  const TileMma mma = TileMma::of(n, k, mma_bits(format));
  const auto codes = on_gpu ? checked_mul(mma.row_tiles, mma.column_tiles * mma.tile_bytes())
                            : checked_mul(tile.tiles, tile.tile_bytes());
  // Checked before the scales, so that their count cannot overflow: there are at most four per byte of codes.
  if (!codes || *codes > limit) return too_large();
  const auto scales = checked_mul(PackedScales::of(n, k, granularity).count, std::int64_t{sizeof(float)});
  if (!scales || *scales > limit) return too_large();
  return round_up(static_cast<std::size_t>(*codes), packed_alignment(device)) + static_cast<std::size_t>(*scales);
}

Result<PackedWeights::State> pack_weights(const CanonicalWeights& w, const RowReader* reader, const Threads& threads,
                                          std::span<std::byte> memory) {
  Places places(w, memory);
  const RowPieces pieces = RowPieces::of(w, reader != nullptr ? reader->row_block : 1, kPieceBytes);
  touch_first(places, threads);
  TERN_ASSIGN(buffer, Tensor::allocate(host_memory(), DType::u8, {reader != nullptr ? pieces.bytes() : 0}, "pack"));
  TileSink sink(places, static_cast<std::uint8_t*>(buffer.data()));
  TERN_ASSIGN(checksum, pass_rows(w, reader, pieces, threads, sink));
  PackedScales::of(w.n, w.k, w.granularity).arrange(w, places.scales);
  places.state.checksum = checksum;
  return std::move(places.state);
}

}  // namespace tern
