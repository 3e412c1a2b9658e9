// Which matrices of linear go to the tensor cores of a generation of GPUs, and which to the plain kernel. Launchers
// follow it and selection reports it, so host code and .cu files include it.
#pragma once

#include <cstdint>

#include "format/tile_mma.h"
#include "ops/linear/linear.h"

namespace tern::linear {

// The most columns whose int8 sums fit.
constexpr std::int64_t max_mma_k(Format format) {
  return is_trits(format) ? MmaWeights<2>::kMaxK : format == Format::s4 ? MmaWeights<4>::kMaxK : MmaWeights<8>::kMaxK;
}
// Whether the integer kernels take a matrix. If not, the float modes may.
inline bool for_integers(LinearMath math, Format format, std::int64_t k, const Granularity& granularity) {
  return k > 0 && k <= max_mma_k(format) && exact(math, granularity);
}

// Columns of a group of scales; 0: none.
inline std::int64_t group_of(const Granularity& granularity) {
  return granularity.kind == Granularity::Kind::group ? granularity.group_size : 0;
}

// --- float modes: the order of their sums (cuda_float_kernels.h), and what it can lose ---

namespace float_modes {

inline constexpr int kTileColumns = static_cast<int>(TileMma::kColumns), kTileRows = static_cast<int>(TileMma::kRows);
inline constexpr int kStepColumns = 32, kTileTokens = 8;
inline constexpr int kMinUnit = 4;    // column tiles: what a warp reads at once
inline constexpr int kMaxUnits = 16;  // warps of a block

// The most columns of a flush. sm is the generation: 75, 80 or 90.
constexpr int flush_most(int sm, bool int8) {
  if (int8) return kTileColumns;
  return sm >= 90 ? 128 : sm >= 80 ? 64 : 32;
}
// The columns of a flush, which must be within one group.
constexpr int flush_of(int most, std::int64_t group, std::int64_t k) {
  return group == 0 || group >= k || group % most == 0 ? most : kStepColumns;
}
constexpr std::int64_t unit_of(std::int64_t column_tiles) {
  const std::int64_t unit = ceil_div(column_tiles, kMaxUnits);
  return unit > kMinUnit ? unit : kMinUnit;
}
// The loss allowed, and what the order of sums can lose, in 2^-24 of sum(abs(x) * abs(w)).
constexpr std::int64_t kMostLost = 167;
constexpr std::int64_t lost_units(int most, int flush, int parts, bool int8, std::int64_t k) {
  const std::int64_t unit = unit_of(ceil_div(k, kTileColumns));
  return (int8 ? 0 : 80 * flush / most) + parts * unit * (kTileColumns / flush) + kMaxUnits + 4;
}
static_assert(lost_units(128, 128, 1, false, 65536) <= kMostLost && lost_units(64, 64, 1, false, 65536) <= kMostLost);

// What the matrices of a call share.
struct Call {
  LinearMath math = LinearMath::w2a8;
  DType x_dtype = DType::i8;
  std::int64_t m = 0, k = 0;
};

enum class Refusal : std::uint8_t { none, token_type, columns, integers, group, bound, results };

// Why matrices spec(0) .. spec(count - 1) cannot go to the float modes together, and the first that cannot.
struct Served {
  Refusal refusal = Refusal::none;
  std::size_t matrix = 0;
};
template <class Spec>
Served served(int sm, const Call& call, std::size_t count, Spec spec) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const bool int8 = call.math == LinearMath::w2a8;
  if (!int8 && sm < 80 && call.x_dtype != DType::f16) return {Refusal::token_type};
  if (call.k < 1 || call.k > MmaWeights<2>::kMaxK) return {Refusal::columns};
  const int parts = !int8 && call.x_dtype == DType::f32 ? 3 : 1;
  std::int64_t row_tiles = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Linear::Matrix& matrix = spec(i);
    const std::int64_t group = group_of(matrix.granularity);
    if (int8 && group == 0) return {Refusal::integers, i};  // exact, not a float mode
    if (group % kStepColumns != 0 && group < call.k) return {Refusal::group, i};
    const int most = flush_most(sm, int8);
    if (lost_units(most, flush_of(most, group, call.k), parts, int8, call.k) > kMostLost) return {Refusal::bound, i};
    row_tiles += ceil_div(matrix.n, kTileRows);
  }
  if (call.m > kMost || row_tiles * ceil_div(call.m, kTileTokens) > kMost) return {Refusal::results};
  return {};
}

}  // namespace float_modes

// For selection: adds what each generation of kernels leaves to the plain kernel.
void add_plain_parts(const Linear::Problem& problem, ProblemFacts& facts);

}  // namespace tern::linear
