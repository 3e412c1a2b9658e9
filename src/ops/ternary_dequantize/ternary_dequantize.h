// y = code * scale of the code's range, exact but for one rounding to y's type; code 0 gives +0. A code that the scheme
// cannot have produced is an error, not a value.
#pragma once

#include "format/ranges.h"
#include "ops/op.h"
#include "ops/ternary_dequantize/simd_table.h"
#include "tern/quantize.h"

namespace tern {
namespace ternary_dequantize {

// What a kernel gets: checked arguments as pointers and strides.
struct Params {
  TernaryDequantize::Problem problem;
  Ranges ranges;
  const std::uint8_t* codes = nullptr;
  std::int64_t codes_stride = 0;  // bytes
  const float* scales = nullptr;
  void* y = nullptr;          // of problem.dtype
  std::int64_t y_stride = 0;  // elements
};

// The error that every kernel returns for invalid codes. Searches for the first one.
Error invalid_code_error(const Params& params);

// The loops of the best instruction set with these capabilities, for callers that use the values without storing them.
const SimdTable& loops_for(Capabilities instructions);

}  // namespace ternary_dequantize

template <>
struct OpTraits<TernaryDequantize> {
  using Params = ternary_dequantize::Params;
  static constexpr std::string_view kName = "ternary_dequantize";

  static Result<ProblemFacts> facts(const TernaryDequantize::Problem& problem);
  static Result<Params> bind(const TernaryDequantize::Problem& problem, const TernaryDequantize::Args& args,
                             DeviceId device = {});
  static bool empty(const Params& params) { return params.ranges.total == 0; }
  static std::int64_t operations(const Params& p) { return p.problem.rows * p.problem.k; }

  static constexpr Words kWords = Words::of(Word::scheme, Word::granularity, Word::format);
  static TernaryDequantize::Problem problem(const ProblemWords& words);
  template <class Args, class See>
  static void operands(const TernaryDequantize::Problem& p, Args& args, See&& see) {
    see("codes", args.codes, code_dtype(p.format), Shape{p.rows, row_bytes(p.format, p.k)});
    see("scales", args.scales, DType::f32, Shape{make_ranges(p.rows, p.k, p.granularity).total});
    see("y", args.y, p.dtype, Shape{p.rows, p.k});
  }
  template <class P, class See>
  static void memory(P& p, See&& see) {
    const auto& problem = p.problem;
    see(p.codes, Area::strided(problem.rows, row_bytes(problem.format, problem.k), p.codes_stride));
    see(p.scales, Area::dense(p.ranges.total, 4));
    see(p.y, Area::strided(problem.rows, problem.k, p.y_stride, size_of(problem.dtype)));
  }
};

namespace ternary_dequantize {
TERN_OP_DRIVERS(TernaryDequantize)
}  // namespace ternary_dequantize
}  // namespace tern
