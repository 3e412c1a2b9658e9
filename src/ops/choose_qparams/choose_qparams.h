// choose_qparams: for each range, s = (max - min)/(q_max - q_min) and zp = q_min - rne(min/s), with min <= 0 <= max; or
// s = max abs/((q_max - q_min)/2) without zero points. The method decides which of a range's values count.
#pragma once

#include "ops/affine/affine.h"
#include "ops/choose_qparams/rule.h"
#include "ops/choose_qparams/simd_table.h"
#include "ops/op.h"
#include "tern/qparams.h"

namespace tern {
namespace choose_qparams {

// What a kernel gets: checked arguments.
struct Params {
  ChooseQparams::Problem problem;
  std::string_view op;  // for error messages: dynamic_quantize uses this too
  Rule rule;
  ConstTensorView x;
  void* scales = nullptr;
  void* zero_points = nullptr;  // i32, may be unaligned; null without zero points
  std::int64_t count = 0;       // number of ranges
};

// Checks the problem and the tensors of every op that chooses scales.
Result<Rule> check_problem(std::string_view op, const ChooseQparams::Problem& problem);
Result<Params> check_args(const Where& where, const ChooseQparams::Problem& problem, const ConstTensorView& x,
                          const TensorView& scales, const TensorView& zero_points);
// The error for a scale that its type cannot hold.
Error scale_error(const Params& params, std::int64_t range);

template <class T>
void store(const Params& params, std::int64_t range, const Chosen<T>& chosen) {
  write_element(params.scales, params.problem.scale_dtype, range, static_cast<double>(chosen.scale));
  if (params.zero_points != nullptr) store_element(params.zero_points, range, chosen.zero_point);
}

// Methods that scan a range many times work on a copy.
inline bool copies_ranges(const ChooseQparams::Problem& p) {
  return p.method == QparamsMethod::percentile || p.method == QparamsMethod::mse;
}

}  // namespace choose_qparams

template <>
struct OpTraits<ChooseQparams> {
  using Params = choose_qparams::Params;
  static constexpr std::string_view kName = "choose_qparams";

  static Result<ProblemFacts> facts(const ChooseQparams::Problem& problem);
  static Result<Params> bind(const ChooseQparams::Problem& problem, const ChooseQparams::Args& args,
                             DeviceId device = {});
  static bool empty(const Params& params) { return affine::is_empty(params.problem.shape); }
  static std::int64_t operations(const Params& p) { return affine::elements_of(p.problem.shape); }

  static constexpr Words kWords = Words::of(Word::granularity, Word::format, Word::method);
  static constexpr std::string_view kScheme = "affine";
  static ChooseQparams::Problem problem(const ProblemWords& words) {
    return affine::problem_of_words<ChooseQparams>(words);
  }
  template <class Args, class See>
  static void operands(const ChooseQparams::Problem& p, Args& args, See&& see) {
    see("x", args.x, p.dtype, p.shape);
    affine::see_qparams(p, args, see);
  }
  template <class P, class See>
  static void memory(P& p, See&& see) {
    see(p.x);
    see(p.scales, Area::dense(p.count, size_of(p.problem.scale_dtype)));
    see(p.zero_points, Area::dense(p.count, 4));
  }
};

namespace choose_qparams {
TERN_OP_DRIVERS(ChooseQparams)
}  // namespace choose_qparams
}  // namespace tern
