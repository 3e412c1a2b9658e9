// Converts other projects' layouts to canonical codes and scales, and back.
#include "tern/layout.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/errors.h"
#include "base/fp_env.h"
#include "base/half.h"
#include "base/views.h"
#include "format/format.h"
#include "format/i2.h"
#include "format/invalid_value.h"
#include "format/layout.h"
#include "format/layout_scales.h"
#include "format/ranges.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "layout";
constexpr std::int64_t kChunkBytes = 32 << 10;  // codes are checked while they are still in the L1 cache

Result<LayoutShape> checked_shape(const LayoutSpec& spec, std::int64_t n, std::int64_t k) {
  TERN_RETURN_IF_ERROR(check_extent(kWhere, n, k, DType::u8, Granularity::row()));
  return shape_of(spec, n, k);
}

// Everything about a piece that is checked before any byte is touched.
struct Piece {
  LayoutSpec spec;
  LayoutShape shape;
  RowPiece rows;
  std::int64_t stride = 0;

  [[nodiscard]] std::int64_t first_scale() const {
    return shape.scales == ScalesIn::blocks ? rows.first * shape.blocks_per_row : 0;
  }
  [[nodiscard]] bool has_scales() const { return shape.scales != ScalesIn::none && rows.n > 0 && rows.k > 0; }
  [[nodiscard]] std::int64_t scale_count() const {
    if (!has_scales()) return 0;
    return shape.scales == ScalesIn::blocks ? rows.count * shape.blocks_per_row : 1;
  }
  // Calls work(rows, offset of their first row in the piece) for each chunk, until one fails.
  template <class Work>
  Status each_chunk(Work work) const {
    const std::int64_t line = std::max<std::int64_t>(row_bytes(Format::i2, rows.k), 1);
    const std::int64_t step = std::max<std::int64_t>(kChunkBytes / line / shape.row_block, 1) * shape.row_block;
    for (std::int64_t at = 0; at < rows.count; at += step)
      TERN_RETURN_IF_ERROR(work(RowPiece{rows.n, rows.k, rows.first + at, std::min(step, rows.count - at)}, at));
    return {};
  }
};

Result<Piece> check(const LayoutSpec& spec, std::int64_t n, std::int64_t k, RowRange range,
                    const ConstTensorView& codes, const void* bytes, std::size_t byte_count, std::size_t scale_count,
                    bool import = false) {
  TERN_ASSIGN(shape, checked_shape(spec, n, k));
  if (import && row_of(spec.layout).runs > 1 && range.count < n) shape.row_block = 1;
  if (byte_count != static_cast<std::size_t>(shape.bytes))
    return error(Code::invalid_argument, kWhere, "{} x {} in {} are {} bytes, {} were given", n, k, name(spec.layout),
                 shape.bytes, byte_count);
  if (bytes == nullptr && byte_count > 0) return error(Code::invalid_argument, kWhere, "the bytes are null");
  if (range.first < 0 || range.count < 0 || range.first > n || range.count > n - range.first)
    return error(Code::invalid_argument, kWhere, "{} rows from {} on are not among {} rows", range.count, range.first,
                 n);
  if (range.first % shape.row_block != 0 || range.count % shape.row_block != 0)
    return error(Code::invalid_argument, kWhere,
                 "rows of {} x {} in {} are stored in blocks of {}; {} rows from row {} on are not whole blocks", n, k,
                 name(spec.layout), shape.row_block, range.count, range.first);
  TERN_ASSIGN(rows, as_rows(kWhere, "codes", codes, DType::u8, range.count, row_bytes(Format::i2, k)));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes);
  TERN_RETURN_IF_ERROR(check_apart(kWhere, "codes", bytes_of(codes), "the bytes", {begin, begin + byte_count}));
  const Piece piece{spec, shape, {n, k, range.first, range.count}, rows.stride};
  if (static_cast<std::int64_t>(scale_count) != piece.scale_count())
    return error(Code::invalid_argument, kWhere, "{} has {} scales in the bytes of {} rows of {} x {}, {} were given{}",
                 name(spec.layout), piece.scale_count(), range.count, n, k, scale_count,
                 shape.scales == ScalesIn::none ? "; they are kept apart from such bytes" : "");
  return piece;
}

// Returns an error for the first code that is no trit.
Status check_trits(const Piece& piece, const RowPiece& rows, const CodesIn& codes) {
  for (std::int64_t i = 0; i < rows.count; ++i) {
    if (all_trits(codes.row(i), rows.k)) continue;
    std::int64_t column = 0;
    while ((codes.row(i)[column / 4] >> (2 * (column % 4)) & 3) != 3) ++column;
    const std::int64_t row = rows.first + i, element = row * rows.k + column;
    return with(invalid_code(Format::i2, Scheme::absmean, codes.row(i), rows.k, column),
                error_at(element, Code::invalid_quantized_value, kWhere,
                         "{} codes[{}, {}] (element {}) is no trit: the bytes are damaged, or in another format",
                         name(piece.spec.layout), row, column, element));
  }
  return {};
}

Error bad_scale(const Piece& piece, std::int64_t index, float scale, std::string_view what) {
  return with(invalid_scale(scale), error_at(index, Code::invalid_scale, kWhere, "{} scale {} is {}{}",
                                             name(piece.spec.layout), index, scale, what));
}

// Reads the scale of the tensor. It may be 0 if every trit is 0.
Status read_trailer(const Piece& piece, const std::uint8_t* bytes, const CodesIn& codes, float& scale) {
  std::memcpy(&scale, bytes + piece.shape.code_bytes, sizeof scale);
  if (valid_scale(scale)) return {};
  const bool zero = (std::bit_cast<std::uint32_t>(scale) & 0x7FFF'FFFFU) == 0;
  if (!zero) return bad_scale(piece, 0, scale, "; it must be finite and above 0");
  for (std::int64_t i = 0; i < piece.rows.count; ++i)
    if (!all_zero(codes.row(i), 0, piece.rows.k)) return bad_scale(piece, 0, scale, ", but not every trit is 0");
  scale = 1.0F;
  return {};
}

// Reads the scales of blocks, row by row. A scale of 0 makes all codes of its block zero.
Status read_blocks(const Piece& piece, const RowPiece& rows, const std::uint8_t* bytes, const CodesOut& codes,
                   float* scales) {
  const LayoutShape& shape = piece.shape;
  const std::int64_t columns = row_of(piece.spec.layout).scale_columns;
  for (std::int64_t i = 0; i < rows.count; ++i)
    for (std::int64_t b = 0; b < shape.blocks_per_row; ++b) {
      const std::int64_t block = (rows.first + i) * shape.blocks_per_row + b;
      std::uint16_t half = 0;
      std::memcpy(&half, bytes + shape.scale_at(block), sizeof half);
      float scale = half::from_f16(half);
      if ((half & 0x7FFFU) == 0) {
        std::memset(codes.row(i) + b * (columns / 4), i2::kPadding, static_cast<std::size_t>(columns / 4));
        scale = 1.0F;
      }
      if (!valid_scale(scale)) return bad_scale(piece, block, scale, "; it must be finite and above 0");
      scales[i * shape.blocks_per_row + b] = scale;
    }
  return {};
}

// Writes scales as f16. A block of zeros gets scale 0, as in ggml.
void write_blocks(const Piece& piece, const RowPiece& rows, const CodesIn& codes, const float* scales,
                  std::uint8_t* bytes) {
  const LayoutShape& shape = piece.shape;
  const std::int64_t columns = row_of(piece.spec.layout).scale_columns;
  for (std::int64_t i = 0; i < rows.count; ++i)
    for (std::int64_t b = 0; b < shape.blocks_per_row; ++b) {
      const bool zeros = all_zero(codes.row(i), b * columns, (b + 1) * columns);
      const std::uint16_t half = zeros ? std::uint16_t{0} : half::to_f16(scales[i * shape.blocks_per_row + b]);
      std::memcpy(bytes + shape.scale_at((rows.first + i) * shape.blocks_per_row + b), &half, sizeof half);
    }
}

Status check_given_scales(const Piece& piece, std::span<const float> scales) {
  TERN_RETURN_IF_ERROR(check_scales(kWhere, "scales", scales.data(), static_cast<std::int64_t>(scales.size())));
  if (piece.shape.scales != ScalesIn::blocks) return {};
  for (std::size_t i = 0; i < scales.size(); ++i)
    if (!is_f16(scales[i]))
      return error_at(static_cast<std::int64_t>(i), Code::unsupported, kWhere,
                      "{} stores scales as f16, which cannot hold {} exactly; fit_scales() rounds it",
                      name(piece.spec.layout), scales[i]);
  return {};
}

}  // namespace

std::optional<Granularity> scales_in(Layout layout) {
  const LayoutRow& row = row_of(layout);
  switch (row.scales) {
    case ScalesIn::trailer: return Granularity::tensor();
    case ScalesIn::blocks: return Granularity::group(row.scale_columns);
    case ScalesIn::none: break;
  }
  return std::nullopt;
}

Result<std::size_t> layout_bytes(const LayoutSpec& spec, std::int64_t n, std::int64_t k) {
  TERN_ASSIGN(shape, checked_shape(spec, n, k));
  return static_cast<std::size_t>(shape.bytes);
}

Result<std::int64_t> layout_row_block(const LayoutSpec& spec, std::int64_t n, std::int64_t k) {
  TERN_ASSIGN(shape, checked_shape(spec, n, k));
  return shape.row_block;
}

Result<std::int64_t> layout_scales(const LayoutSpec& spec, std::int64_t n, std::int64_t k) {
  TERN_ASSIGN(shape, checked_shape(spec, n, k));
  return Piece{spec, shape, {n, k, 0, n}}.scale_count();
}

Status import_rows(const LayoutSpec& spec, std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k,
                   RowRange range, const TensorView& codes, std::span<float> scales) {
  TERN_ASSIGN(piece, check(spec, n, k, range, codes, bytes.data(), bytes.size(), scales.size(), true));
  if (range.count == 0 || k == 0) return {};
  const FpEnvGuard guard;
  auto* data = static_cast<std::uint8_t*>(codes.data);
  const auto import_chunk = [&](const RowPiece& rows, std::int64_t at) -> Status {
    const CodesOut out{data + at * piece.stride, piece.stride};
    layout_to_i2(spec, rows, bytes.data(), out);
    TERN_RETURN_IF_ERROR(check_trits(piece, rows, {out.data, out.stride}));
    if (piece.shape.scales != ScalesIn::blocks) return {};
    return read_blocks(piece, rows, bytes.data(), out, scales.data() + at * piece.shape.blocks_per_row);
  };
  TERN_RETURN_IF_ERROR(piece.each_chunk(import_chunk));
  if (piece.shape.scales != ScalesIn::trailer) return {};
  return read_trailer(piece, bytes.data(), {data, piece.stride}, scales[0]);
}

Status export_rows(const LayoutSpec& spec, const ConstTensorView& codes, std::int64_t n, std::int64_t k, RowRange range,
                   std::span<const float> scales, std::span<std::uint8_t> bytes) {
  TERN_ASSIGN(piece, check(spec, n, k, range, codes, bytes.data(), bytes.size(), scales.size()));
  const FpEnvGuard guard;
  TERN_RETURN_IF_ERROR(check_given_scales(piece, scales));
  const auto* data = static_cast<const std::uint8_t*>(codes.data);
  const auto export_chunk = [&](const RowPiece& rows, std::int64_t at) -> Status {
    const CodesIn in{data + at * piece.stride, piece.stride};
    TERN_RETURN_IF_ERROR(check_trits(piece, rows, in));
    layout_from_i2(spec, rows, in, bytes.data());
    if (piece.shape.scales == ScalesIn::blocks)
      write_blocks(piece, rows, in, scales.data() + at * piece.shape.blocks_per_row, bytes.data());
    return {};
  };
  if (k > 0) TERN_RETURN_IF_ERROR(piece.each_chunk(export_chunk));
  if (range.first + range.count < n || piece.shape.scales != ScalesIn::trailer) return {};
  std::memset(bytes.data() + piece.shape.used_bytes, 0,
              static_cast<std::size_t>(piece.shape.bytes - piece.shape.used_bytes));
  if (!scales.empty()) std::memcpy(bytes.data() + piece.shape.code_bytes, scales.data(), sizeof(float));
  return {};
}

Status import_weights(const LayoutSpec& spec, std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k,
                      const TensorView& codes, std::span<float> scales) {
  return import_rows(spec, bytes, n, k, {0, n}, codes, scales);
}

Result<ScaleLoss> export_weights(const LayoutSpec& spec, const ConstTensorView& codes, std::int64_t n, std::int64_t k,
                                 std::span<const float> scales, const Granularity& granularity,
                                 std::span<std::uint8_t> bytes, Lossy lossy) {
  // Check the shape first: its error is more specific than an error about scales.
  TERN_RETURN_IF_ERROR(checked_shape(spec, n, k));
  TERN_ASSIGN(fitted, fit_scales(spec.layout, codes, n, k, scales, granularity, lossy));
  TERN_RETURN_IF_ERROR(export_rows(spec, codes, n, k, {0, n}, fitted.scales, bytes));
  return fitted.loss;
}

Status import_codes(const LayoutSpec& spec, std::span<const std::uint8_t> bytes, std::int64_t n, std::int64_t k,
                    const TensorView& codes) {
  return import_weights(spec, bytes, n, k, codes, {});
}

Status export_codes(const LayoutSpec& spec, const ConstTensorView& codes, std::int64_t n, std::int64_t k,
                    std::span<std::uint8_t> bytes) {
  return export_rows(spec, codes, n, k, {0, n}, {}, bytes);
}

}  // namespace tern
