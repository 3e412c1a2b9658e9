// affine_dequantize: y = float(code - zp) * s, with a given s and zp for each range; rounded once, then once more if y
// is f16 or bf16.
#pragma once

#include "ops/affine/affine.h"
#include "ops/affine_dequantize/simd_table.h"
#include "ops/op.h"
#include "tern/affine.h"

namespace tern {
namespace affine_dequantize {

// What a kernel gets: checked arguments.
struct Params {
  AffineDequantize::Problem problem;
  const std::uint8_t* codes = nullptr;
  std::int64_t code_row_bytes = 0;  // from one row of y to the next
  affine::Qparams qparams;
  TensorView y;
};

}  // namespace affine_dequantize

template <>
struct OpTraits<AffineDequantize> {
  using Params = affine_dequantize::Params;
  static constexpr std::string_view kName = "affine_dequantize";

  static Result<ProblemFacts> facts(const AffineDequantize::Problem& problem);
  static Result<Params> bind(const AffineDequantize::Problem& problem, const AffineDequantize::Args& args,
                             DeviceId device = {});
  static bool empty(const Params& params) { return affine::is_empty(params.problem.shape); }
  static std::int64_t operations(const Params& p) { return affine::elements_of(p.problem.shape); }

  static constexpr Words kWords = Words::of(Word::granularity, Word::format);
  static constexpr std::string_view kScheme = "affine";
  static AffineDequantize::Problem problem(const ProblemWords& words) {
    return affine::problem_of_words<AffineDequantize>(words);
  }
  template <class Args, class See>
  static void operands(const AffineDequantize::Problem& p, Args& args, See&& see) {
    see("codes", args.codes, code_dtype(p.format), affine::code_shape(p.shape, p.format));
    affine::see_qparams(p, args, see);
    see("y", args.y, p.dtype, p.shape);
  }
  template <class P, class See>
  static void memory(P& p, See&& see) {
    see(p.codes, affine::code_area(p.problem.shape, p.problem.format, p.code_row_bytes));
    affine::see_memory(p.qparams, see);
    see(p.y);
  }
};

namespace affine_dequantize {
TERN_OP_DRIVERS(AffineDequantize)
}  // namespace affine_dequantize
}  // namespace tern
