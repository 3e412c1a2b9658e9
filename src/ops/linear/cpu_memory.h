// Memory of linear's CPU driver: the shape of the staged activations, and the parts of the workspace.
#pragma once

#include <algorithm>

#include "base/checked.h"
#include "format/tile16.h"
#include "memory/workspace.h"
#include "ops/dot/staging.h"
#include "ops/linear/linear.h"

namespace tern::linear {

// The driver is written in the words of dot: tiles, panels, streams, blocks of the epilogue.
using namespace dot;  // NOLINT(google-build-using-namespace)

inline constexpr std::int64_t kBlockRows = 128;                    // rows whose sums are kept at a time
inline constexpr std::int64_t kPanelRows = kMaxTiles * kTileRows;  // the same with panels, for more tokens
inline constexpr std::int64_t kBlockSums = 128 * kBlockRows;       // most sums of a block
// Float modes decode the trits of one chain at a time.
inline constexpr auto kTritsBytes = kMaxTiles * kTileRows * kFloatColumns * static_cast<std::int64_t>(sizeof(float));

struct Shape {
  std::int64_t m = 0;
  bool floats = false;  // activations stay float
  const TileLoops* loops = nullptr;
  bool panels = false;  // activations are staged as tiles
  std::int64_t block_rows = kBlockRows;
  std::int64_t stride = 0;    // between staged tokens or panels: the largest of all matrices
  std::int64_t segments = 1;  // the largest of all matrices
  bool any_float_sums = false;
  bool any_groups = false;  // int8 activations with group scales
};

// matrix(i) returns matrix i of `count`.
template <class MatrixAt>
Shape shape_of(const SimdTable& table, Format format, std::int64_t m, std::int64_t k, LinearMath math,
               std::size_t count, MatrixAt matrix) {
  Shape s{.m = m, .floats = math == LinearMath::w2_float, .loops = &loops_of(table, format)};
  s.panels = s.loops->begin != nullptr && !s.floats && m > kFewTokens;
  if (s.panels) s.block_rows = kPanelRows;
  for (std::size_t i = 0; i < count; ++i) {
    const Granularity& granularity = matrix(i).granularity;
    const Tile16 tile = Tile16::of(matrix(i).n, k, granularity, format);
    s.stride = std::max(s.stride, s.panels ? panel_stride(tile) : token_stride(tile));
    s.segments = std::max(s.segments, tile.segments);
    s.any_float_sums = s.any_float_sums || s.floats;
    s.any_groups = s.any_groups || (!s.floats && granularity.kind == Granularity::Kind::group);
  }
  return s;
}

// The scratch memory of a slot.
struct Scratch {
  std::uint8_t* codes = nullptr;  // decoded tiles, as bytes or as floats
  std::int32_t* sums = nullptr;   // [tokens][block_rows]; floats in float modes
  double* totals = nullptr;       // float modes: the same in f64, over all segments
  float* chains = nullptr;        // group scales: the current chain ...
  float* finished = nullptr;      // ... and the sum of the chains before it
  float* clean = nullptr;         // a token, saturated
  std::int8_t* row = nullptr;     // a token, before it is copied to a panel
};

struct Staged {
  std::int8_t* bytes = nullptr;  // int8 tokens ...
  float* floats = nullptr;       // ... or float tokens
  std::int32_t* sums = nullptr;  // [m][segments]: sum(x) * (code of 0), by which every sum of codes is too large
  float* scales = nullptr;       // [m]
};

// Tokens of a block: whole panels, and blocks of about equal size.
inline std::int64_t block_tokens(std::int64_t m, std::int64_t block_rows) {
  const std::int64_t blocks = std::max<std::int64_t>(1, ceil_div(m, kBlockSums / block_rows));
  return ceil_div(ceil_div(m, blocks), kPanelTokens) * kPanelTokens;
}

// Books the same parts at plan time and at run time.
struct Memory {
  Staged staged;
  SharedWork::Share* shares = nullptr;  // one for each slot
  Scratch first;                        // of slot 0
  std::int64_t codes_step = 0, sums_step = 0, clean_step = 0, row_step = 0;
  Memory(WorkspaceLedger& ledger, const Shape& s, std::int64_t k, bool saturate, int slots) {
    const auto m = static_cast<std::size_t>(s.m);
    if (s.floats)
      staged.floats = ledger.book<float>(m * static_cast<std::size_t>(s.stride));
    else
      staged.bytes = ledger.book<std::int8_t>((s.panels ? ceil_div(m, std::size_t{kPanelTokens}) : m) *
                                              static_cast<std::size_t>(s.stride));
    staged.sums = ledger.book<std::int32_t>(m * static_cast<std::size_t>(s.segments));
    staged.scales = ledger.book<float>(m);
    const auto n = static_cast<std::size_t>(slots);
    shares = ledger.book<SharedWork::Share>(n);
    codes_step = s.m > kFewTokens ? std::max(s.loops->codes_bytes, kTritsBytes) : 0;
    sums_step = std::min(s.m * s.block_rows, kBlockSums);
    clean_step = saturate ? static_cast<std::int64_t>(round_up(static_cast<std::size_t>(k), 16)) : 0;
    row_step = s.panels ? (ceil_div(k, kPanelColumns) + 1) * kPanelColumns : 0;  // a last line may reach beyond k
    first.codes = ledger.book<std::uint8_t>(n * static_cast<std::size_t>(codes_step));
    first.sums = ledger.book<std::int32_t>(n * static_cast<std::size_t>(sums_step));
    first.totals = s.any_float_sums ? ledger.book<double>(n * static_cast<std::size_t>(sums_step)) : nullptr;
    first.chains = s.any_groups ? ledger.book<float>(n * static_cast<std::size_t>(sums_step)) : nullptr;
    first.finished = s.any_groups ? ledger.book<float>(n * static_cast<std::size_t>(sums_step)) : nullptr;
    first.clean = ledger.book<float>(n * static_cast<std::size_t>(clean_step));
    first.row = ledger.book<std::int8_t>(n * static_cast<std::size_t>(row_step));
  }
  [[nodiscard]] Scratch of(int slot) const {
    return {.codes = first.codes + slot * codes_step,
            .sums = first.sums + slot * sums_step,
            .totals = first.totals == nullptr ? nullptr : first.totals + slot * sums_step,
            .chains = first.chains == nullptr ? nullptr : first.chains + slot * sums_step,
            .finished = first.finished == nullptr ? nullptr : first.finished + slot * sums_step,
            .clean = first.clean + slot * clean_step,
            .row = first.row + slot * row_step};
  }
};

}  // namespace tern::linear
