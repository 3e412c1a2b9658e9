// Encodes each piece as a small matrix: its bytes equal those of the large matrix, at other offsets.
#include "model/layout_pieces.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/checked.h"
#include "base/errors.h"
#include "format/format.h"
#include "format/layout.h"
#include "model/rows_source.h"

namespace tern {

Result<LayoutPieces> LayoutPieces::make(const LayoutSpec& spec, std::int64_t n, std::int64_t k,
                                        std::int64_t source_block, std::int64_t piece_elems) {
  LayoutPieces pieces;
  pieces.spec_ = spec;
  pieces.n_ = n;
  pieces.k_ = k;
  TERN_ASSIGN(block, layout_row_block(spec, n, k));
  const LayoutRow& layout = row_of(spec.layout);
  if (layout.tiles) block = spec.tiles.tile_rows;
  if (layout.runs > 1) block = 1;
  pieces.runs_ = layout.runs;
  const std::int64_t run_rows = n / pieces.runs_;
  const std::int64_t both = std::lcm(block, source_block);
  if (both <= piece_elems / std::max<std::int64_t>(k, 1)) block = both;
  pieces.step_ = std::max<std::int64_t>(piece_elems / std::max<std::int64_t>(k, 1) / pieces.runs_ / block, 1) * block;
  pieces.step_ = std::min(pieces.step_, std::max<std::int64_t>(run_rows, 1));
  pieces.per_part_ = ceil_div(run_rows, pieces.step_);
  pieces.row_pieces_ = ceil_div(n, pieces.most_rows());
  const LayoutShape shape = layout.shape(spec.tiles, pieces.most_rows(), k);
  pieces.parts_ = shape.parts;
  if (n > 0) pieces.room_bytes_ = static_cast<std::size_t>(shape.used_bytes);
  return pieces;
}

RowRange LayoutPieces::rows(std::int64_t piece) const {
  return {piece * most_rows(), std::min(most_rows(), n_ - piece * most_rows())};
}

Status LayoutPieces::read(const RowsSource& source, std::int64_t piece, std::uint8_t* codes,
                          std::vector<float>& scales) const {
  const std::int64_t run_rows = n_ / runs_, first = piece % per_part_ * step_;
  const std::int64_t count = std::min(step_, run_rows - first);
  scales.resize(static_cast<std::size_t>(source.scale_count(count)));
  for (std::int64_t run = 0; run < runs_; ++run)
    TERN_RETURN_IF_ERROR(
        source.read({run * run_rows + first, count}, codes + run * count * row_bytes(Format::i2, k_), scales.data()));
  return {};
}

Result<std::span<const std::uint8_t>> LayoutPieces::encode(std::int64_t piece, const std::uint8_t* codes,
                                                           std::span<const float> scales, std::uint8_t* out) const {
  const std::int64_t run_rows = n_ / runs_, first = piece % per_part_ * step_;
  const std::int64_t rows = runs_ * std::min(step_, run_rows - first), line = row_bytes(Format::i2, k_);
  const LayoutShape shape = row_of(spec_.layout).shape(spec_.tiles, rows, k_);
  const auto bytes = static_cast<std::size_t>(shape.bytes);
  if (shape.scales == ScalesIn::trailer) {  // tail() writes the trailer
    layout_from_i2(spec_, {rows, k_, 0, rows}, {codes, line}, out);
    const std::int64_t part = piece / per_part_;
    for (std::int64_t before = 0; before < part; ++before) out += shape.bytes_of_part(before);
    return std::span<const std::uint8_t>(out, static_cast<std::size_t>(shape.bytes_of_part(part)));
  }
  const ConstTensorView view{codes, DType::u8, {rows, line}};
  TERN_RETURN_IF_ERROR(export_rows(spec_, view, rows, k_, {0, rows}, scales, {out, bytes}));
  return std::span<const std::uint8_t>(out, bytes);
}

std::vector<std::uint8_t> LayoutPieces::tail(float scale) const {
  const auto shape = shape_of(spec_, n_, k_);
  if (!shape.ok() || shape->scales != ScalesIn::trailer) return {};
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape->bytes - shape->used_bytes));
  if (n_ > 0 && k_ > 0) std::memcpy(bytes.data() + (shape->code_bytes - shape->used_bytes), &scale, sizeof scale);
  return bytes;
}

}  // namespace tern
