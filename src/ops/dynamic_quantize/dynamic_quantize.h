// dynamic_quantize: choose_qparams by minmax or absmax, then affine_quantize with the chosen scales and zero points.
#pragma once

#include "ops/affine_quantize/affine_quantize.h"
#include "ops/choose_qparams/choose_qparams.h"
#include "ops/dynamic_quantize/simd_table.h"
#include "tern/qparams.h"

namespace tern {
namespace dynamic_quantize {

// What a kernel gets: the checked arguments of both ops.
struct Params {
  choose_qparams::Params choose;
  affine_quantize::Params quantize;
};

ChooseQparams::Problem choosing(const DynamicQuantize::Problem& problem);

}  // namespace dynamic_quantize

template <>
struct OpTraits<DynamicQuantize> {
  using Params = dynamic_quantize::Params;
  static constexpr std::string_view kName = "dynamic_quantize";

  static Result<ProblemFacts> facts(const DynamicQuantize::Problem& problem);
  static Result<Params> bind(const DynamicQuantize::Problem& problem, const DynamicQuantize::Args& args,
                             DeviceId device = {});
  static bool empty(const Params& params) { return affine::is_empty(params.choose.problem.shape); }
  static std::int64_t operations(const Params& p) { return affine::elements_of(p.quantize.problem.shape); }

  static constexpr Words kWords = Words::of(Word::granularity, Word::format, Word::method);
  static constexpr std::string_view kScheme = "affine";
  static DynamicQuantize::Problem problem(const ProblemWords& words) {
    return affine::problem_of_words<DynamicQuantize>(words);
  }
  template <class Args, class See>
  static void operands(const DynamicQuantize::Problem& p, Args& args, See&& see) {
    see("x", args.x, p.dtype, p.shape);
    see("codes", args.codes, code_dtype(p.format), affine::code_shape(p.shape, p.format));
    affine::see_qparams(p, args, see);
  }
  template <class P, class See>
  static void memory(P& p, See&& see) {
    auto& quantize = p.quantize;
    OpTraits<ChooseQparams>::memory(p.choose, see);
    see(quantize.codes, affine::code_area(quantize.problem.shape, quantize.problem.format, quantize.code_row_bytes));
    if constexpr (!std::is_const_v<P>) {  // the same tensors again
      quantize.x = p.choose.x;
      quantize.qparams.scales = p.choose.scales;
      quantize.qparams.zero_points = static_cast<const std::int32_t*>(p.choose.zero_points);
    }
  }
};

namespace dynamic_quantize {
TERN_OP_DRIVERS(DynamicQuantize)
}  // namespace dynamic_quantize
}  // namespace tern
