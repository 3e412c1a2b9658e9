// affine_quantize: code = int(clamp(rne(x/s), q_min - zp, q_max - zp)) + zp, with a given s and zp for each range.
#pragma once

#include "ops/affine/affine.h"
#include "ops/affine_quantize/simd_table.h"
#include "ops/op.h"
#include "tern/affine.h"

namespace tern {
namespace affine_quantize {

// What a kernel gets: checked arguments.
struct Params {
  AffineQuantize::Problem problem;
  CodeRange q = {};  // codes are clamped to it
  ConstTensorView x;
  affine::Qparams qparams;
  std::uint8_t* codes = nullptr;
  std::int64_t code_row_bytes = 0;  // from one row of x to the next
};

inline Store store_of(Format format) {
  switch (codes_per_byte(format)) {
    case 1: return format == Format::u8 ? kU8 : kS8;
    case 2: return kNibbles;
    default: return kQuads;
  }
}

}  // namespace affine_quantize

template <>
struct OpTraits<AffineQuantize> {
  using Params = affine_quantize::Params;
  static constexpr std::string_view kName = "affine_quantize";

  static Result<ProblemFacts> facts(const AffineQuantize::Problem& problem);
  static Result<Params> bind(const AffineQuantize::Problem& problem, const AffineQuantize::Args& args,
                             DeviceId device = {});
  static bool empty(const Params& params) { return affine::is_empty(params.problem.shape); }
  static std::int64_t operations(const Params& p) { return affine::elements_of(p.problem.shape); }

  static constexpr Words kWords = Words::of(Word::granularity, Word::format);
  static constexpr std::string_view kScheme = "affine";
  static AffineQuantize::Problem problem(const ProblemWords& words) {
    return affine::problem_of_words<AffineQuantize>(words);
  }
  template <class Args, class See>
  static void operands(const AffineQuantize::Problem& p, Args& args, See&& see) {
    see("x", args.x, p.dtype, p.shape);
    affine::see_qparams(p, args, see);
    see("codes", args.codes, code_dtype(p.format), affine::code_shape(p.shape, p.format));
  }
  template <class P, class See>
  static void memory(P& p, See&& see) {
    see(p.x);
    affine::see_memory(p.qparams, see);
    see(p.codes, affine::code_area(p.problem.shape, p.problem.format, p.code_row_bytes));
  }
};

namespace affine_quantize {
TERN_OP_DRIVERS(AffineQuantize)
}  // namespace affine_quantize
}  // namespace tern
