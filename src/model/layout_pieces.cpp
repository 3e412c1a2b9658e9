// Encodes each piece as a small matrix: its bytes equal those of the large matrix, at other offsets.
#include "model/layout_pieces.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/checked.h"
#include "base/errors.h"
#include "format/format.h"
#include "format/i2_s.h"
#include "format/layout.h"
#include "format/tl2.h"
#include "model/rows_source.h"

namespace tern {

Result<LayoutPieces> LayoutPieces::make(const LayoutSpec& spec, std::int64_t n, std::int64_t k,
                                        std::int64_t source_block, std::int64_t piece_elems) {
  LayoutPieces pieces;
  pieces.spec_ = spec;
  pieces.n_ = n;
  pieces.k_ = k;
  TERN_ASSIGN(block, layout_row_block(spec, n, k));
  if (spec.layout == Layout::tl1 || spec.layout == Layout::tl2) block = spec.tiles.tile_rows;
  if (spec.layout == Layout::tl2) pieces.parts_ = 3;
  if (spec.layout == Layout::hf_packed) {
    block = 1;
    pieces.runs_ = 4;
  }
  const std::int64_t run_rows = n / pieces.runs_;
  const std::int64_t both = std::lcm(block, source_block);
  if (both <= piece_elems / std::max<std::int64_t>(k, 1)) block = both;
  pieces.step_ = std::max<std::int64_t>(piece_elems / std::max<std::int64_t>(k, 1) / pieces.runs_ / block, 1) * block;
  pieces.step_ = std::min(pieces.step_, std::max<std::int64_t>(run_rows, 1));
  pieces.per_part_ = ceil_div(run_rows, pieces.step_);
  pieces.row_pieces_ = ceil_div(n, pieces.most_rows());
  if (n > 0) {
    const bool tl2 = spec.layout == Layout::tl2;  // its padding does not depend on the number of rows
    TERN_ASSIGN(bytes, layout_bytes(spec, tl2 ? n : pieces.most_rows(), k));
    pieces.room_bytes_ = tl2 ? static_cast<std::size_t>(tl2::used_bytes(spec.tiles, pieces.step_, k)) : bytes;
    if (!tl2 && scales_in_bytes(spec.layout) == ScalesIn::trailer) pieces.room_bytes_ -= i2_s::kTrailerBytes;
  }
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
  if (scales_in_bytes(spec_.layout) == ScalesIn::trailer) {  // tail() writes the trailer
    layout_from_i2(spec_, {rows, k_, 0, rows}, {codes, line}, out);
    if (parts_ == 1) {
      TERN_ASSIGN(bytes, layout_bytes(spec_, rows, k_));
      return std::span<const std::uint8_t>(out, bytes - i2_s::kTrailerBytes);
    }
    const auto parts = tl2::part_bytes(spec_.tiles, rows, k_);
    const auto part = static_cast<std::size_t>(piece / per_part_);
    const auto begin = std::accumulate(parts.begin(), parts.begin() + piece / per_part_, std::int64_t{0});
    return std::span<const std::uint8_t>(out + begin, static_cast<std::size_t>(parts[part]));
  }
  TERN_ASSIGN(bytes, layout_bytes(spec_, rows, k_));
  const ConstTensorView view{codes, DType::u8, {rows, line}};
  TERN_RETURN_IF_ERROR(export_rows(spec_, view, rows, k_, {0, rows}, scales, {out, bytes}));
  return std::span<const std::uint8_t>(out, bytes);
}

std::vector<std::uint8_t> LayoutPieces::tail(float scale) const {
  const auto shape = shape_of(spec_, n_, k_);
  if (!shape.ok() || scales_in_bytes(spec_.layout) != ScalesIn::trailer) return {};
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape->bytes - shape->used_bytes));
  if (n_ > 0 && k_ > 0) std::memcpy(bytes.data() + (shape->code_bytes - shape->used_bytes), &scale, sizeof scale);
  return bytes;
}

}  // namespace tern
