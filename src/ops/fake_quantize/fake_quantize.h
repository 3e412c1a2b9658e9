// fake_quantize: y = float(clamp(rne(x/s) + zp, q_min, q_max) - zp) * s in one pass, and a mask of where gradients
// pass.
#pragma once

#include "ops/affine/affine.h"
#include "ops/fake_quantize/simd_table.h"
#include "ops/op.h"
#include "tern/fake_quantize.h"

namespace tern {
namespace fake_quantize {

// What a kernel gets: checked arguments.
struct Params {
  FakeQuantize::Problem problem;
  CodeRange q = {};
  ConstTensorView x;
  affine::Qparams qparams;
  TensorView y;
  std::uint8_t* mask = nullptr;     // null if not requested
  std::int64_t mask_row_bytes = 0;  // from one row of x to the next
};

// One element, computed step by step, for the references: v = x/s, then rne(v) clamped to the range less zp, and the
// mask.
struct Element {
  double v = 0;
  int q_less_zp = 0;
  bool inside = false;
};
struct ElementRule {
  CodeRange q = {};
  AffineMath math = AffineMath::division;
  bool strict = false;
};
Element round_element(double x, DType dtype, double s, int zp, const ElementRule& rule);

}  // namespace fake_quantize

template <>
struct OpTraits<FakeQuantize> {
  using Params = fake_quantize::Params;
  static constexpr std::string_view kName = "fake_quantize";

  static Result<ProblemFacts> facts(const FakeQuantize::Problem& problem);
  static Result<Params> bind(const FakeQuantize::Problem& problem, const FakeQuantize::Args& args,
                             DeviceId device = {});
  static bool empty(const Params& params) { return affine::is_empty(params.problem.shape); }
  static std::int64_t operations(const Params& p) { return affine::elements_of(p.problem.shape); }

  static constexpr Words kWords = Words::of(Word::granularity, Word::format);
  static constexpr std::string_view kScheme = "affine";
  static FakeQuantize::Problem problem(const ProblemWords& words) {
    return affine::problem_of_words<FakeQuantize>(words);
  }
  template <class Args, class See>
  static void operands(const FakeQuantize::Problem& p, Args& args, See&& see) {
    see("x", args.x, p.dtype, p.shape);
    affine::see_qparams(p, args, see);
    see("y", args.y, p.dtype, p.shape);
    if (p.mask) see("mask", args.mask, DType::u8, p.shape);
  }
  template <class P, class See>
  static void memory(P& p, See&& see) {
    see(p.x);
    affine::see_memory(p.qparams, see);
    see(p.y);
    see(p.mask, affine::code_area(p.problem.shape, Format::u8, p.mask_row_bytes));
  }
};

namespace fake_quantize {
TERN_OP_DRIVERS(FakeQuantize)
}  // namespace fake_quantize
}  // namespace tern
