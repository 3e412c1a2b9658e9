// codes, scales = scheme(x), by range r of [rows, k]:
//
//   absmean  s = max(mean |x|, 1e-5)       q = sign(x) where 2|x| > s, else 0
//   absmax   s = max(max |x|, 1e-8)        the same
//   mse      s = mean |x| over 2|x| > s, repeated from absmean's     the same
//   int2     s given, or max(max x, max -x / 2, 1e-8)                q = rne(min(max(x/s, -2), 1))
//
// f16 and bf16 are widened to f32 first; f64 is computed in f64, its scales rounded to f32 before the codes.
// docs/numerics.md has the order of the sums. Every kernel returns the same bits as reference.cpp.
#pragma once

#include "format/ranges.h"
#include "ops/op.h"
#include "ops/ternary_quantize/simd_table.h"
#include "tern/layout.h"
#include "tern/quantize.h"

namespace tern {
namespace ternary_quantize {

// What a kernel gets: checked arguments as pointers and strides.
struct Params {
  TernaryQuantize::Problem problem;
  Ranges ranges;
  const void* x = nullptr;    // of problem.dtype
  std::int64_t x_stride = 0;  // elements
  std::uint8_t* codes = nullptr;
  std::int64_t codes_stride = 0;  // bytes
  float* scales = nullptr;
  const float* given = nullptr;  // null: the scheme computes its scales
  std::int64_t given_step = 0;   // 0: one for all ranges, 1: one per range

  // For pieces of rows of a large tensor, on a CPU (bind_rows, bind_scale). If codes is null, only the scale of a
  // tensor-wide range is computed; it is then given with each piece.
  std::int64_t first_row = 0;  // its index in the tensor, for error messages
  bool finite = false;         // x is known to be finite; for given scales
};

// The error that every kernel returns for a non-finite value at a row-major index.
Error non_finite_error(const Params& params, std::int64_t index);
// The error that every kernel returns if a scale of f64 input overflows f32.
Error scale_error(const Params& params, std::int64_t range, double scale);

// The loops of the best instruction set with these capabilities, for sums outside of kernels.
const SimdTable& loops_for(Capabilities instructions);

}  // namespace ternary_quantize

template <>
struct OpTraits<TernaryQuantize> {
  using Params = ternary_quantize::Params;
  static constexpr std::string_view kName = "ternary_quantize";

  // Checks the problem alone.
  static Result<ProblemFacts> facts(const TernaryQuantize::Problem& problem);
  // Checks the arguments against the problem.
  static Result<Params> bind(const TernaryQuantize::Problem& problem, const TernaryQuantize::Args& args,
                             DeviceId device = {});
  // Binds some rows of the problem, on a CPU. If all rows share one scale, args.given_scale holds it, and x is known to
  // be finite.
  static Result<Params> bind_rows(const TernaryQuantize::Problem& problem, RowRange rows,
                                  const TernaryQuantize::Args& args);
  // Binds a run that computes only the one scale of all rows, on a CPU. It needs no codes.
  static Result<Params> bind_scale(const TernaryQuantize::Problem& problem, const TernaryQuantize::Args& args);
  static bool empty(const Params& params) { return params.ranges.total == 0; }
  static std::int64_t operations(const Params& p) { return p.problem.rows * p.problem.k; }

  static constexpr Words kWords = Words::of(Word::scheme, Word::granularity, Word::format);
  static TernaryQuantize::Problem problem(const ProblemWords& words);
  template <class Args, class See>
  static void operands(const TernaryQuantize::Problem& p, Args& args, See&& see) {
    const std::int64_t ranges = make_ranges(p.rows, p.k, p.granularity).total;
    see("x", args.x, p.dtype, Shape{p.rows, p.k});
    see("codes", args.codes, code_dtype(p.format), Shape{p.rows, row_bytes(p.format, p.k)});
    see("scales", args.scales, DType::f32, Shape{ranges});
    if (p.scale_given) see("given_scale", args.given_scale, DType::f32, Shape{1});
  }
  template <class P, class See>
  static void memory(P& p, See&& see) {
    const auto& problem = p.problem;
    see(p.x, Area::strided(problem.rows, problem.k, p.x_stride, size_of(problem.dtype)));
    see(p.codes, Area::strided(problem.rows, row_bytes(problem.format, problem.k), p.codes_stride));
    see(p.scales, Area::dense(p.ranges.total, 4));
    see(p.given, Area::dense(p.given_step == 0 ? 1 : p.ranges.total, 4));
  }
};

namespace ternary_quantize {
TERN_OP_DRIVERS(TernaryQuantize)
}  // namespace ternary_quantize
}  // namespace tern
