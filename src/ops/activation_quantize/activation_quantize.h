// token_i8: s = 127 / max(max abs, 1e-5); q = clamp(rne(x * s), -128, 127); sum(q). One s and one sum for each token.
#pragma once

#include <optional>

#include "base/elements.h"
#include "ops/activation_quantize/simd_table.h"
#include "ops/op.h"
#include "tern/linear.h"

namespace tern {
namespace activation_quantize {

// What a kernel gets: checked arguments as pointers and strides.
struct Params {
  ActivationQuantize::Problem problem;
  const void* x = nullptr;
  std::int64_t x_stride = 0;  // elements
  std::int8_t* q = nullptr;
  std::int64_t q_stride = 0;
  float* scales = nullptr;
  std::int32_t* sums = nullptr;
};

// The index of an element type in SimdTable.
Source source_of(DType dtype);
using tern::element;
inline float read(const void* x, DType dtype, std::int64_t index) {
  return static_cast<float>(read_element(x, dtype, index));
}
inline float saturated(float v, DType dtype) { return static_cast<float>(tern::saturated(v, dtype)); }

// A token without non-finite elements, and its scale.
struct FiniteToken {
  const void* x = nullptr;
  DType dtype = DType::f32;
  float s = 0;
};
// Returns the token itself if it is finite. Otherwise saturates it into `clean` (k floats), or returns nullopt if
// non_finite is reject.
std::optional<FiniteToken> finite_token(const SimdTable& table, const void* x, DType dtype, std::int64_t k,
                                        NonFinite non_finite, float* clean);
// The error for the first non-finite element of the tokens [m, k].
Error non_finite_error(std::string_view op, const void* x, DType dtype, std::int64_t stride, std::int64_t m,
                       std::int64_t k);

}  // namespace activation_quantize

template <>
struct OpTraits<ActivationQuantize> {
  using Params = activation_quantize::Params;
  static constexpr std::string_view kName = "activation_quantize";

  static Result<ProblemFacts> facts(const ActivationQuantize::Problem& problem);
  static Result<Params> bind(const ActivationQuantize::Problem& problem, const ActivationQuantize::Args& args,
                             DeviceId device = {});
  static bool empty(const Params& params) { return params.problem.m == 0 || params.problem.k == 0; }
  static std::int64_t operations(const Params& p) { return p.problem.m * p.problem.k; }

  static constexpr Words kWords = Words::of(Word::m);
  static constexpr std::string_view kScheme = "token_i8";
  static ActivationQuantize::Problem problem(const ProblemWords& words);
  static std::string text(const ProblemWords& words);
  static std::string_view without(Word word) {
    if (word == Word::granularity) return "every token has its scale";
    return word == Word::format ? "its codes are i8" : "";
  }
  template <class Args, class See>
  static void operands(const ActivationQuantize::Problem& p, Args& args, See&& see) {
    see("x", args.x, p.dtype, Shape{p.m, p.k});
    see("q", args.q, DType::i8, Shape{p.m, p.k});
    see("scales", args.scales, DType::f32, Shape{p.m});
    see("sums", args.sums, DType::i32, Shape{p.m});
  }
  template <class P, class See>
  static void memory(P& p, See&& see) {
    const auto& problem = p.problem;
    see(p.x, Area::strided(problem.m, problem.k, p.x_stride, size_of(problem.dtype)));
    see(p.q, Area::strided(problem.m, problem.k, p.q_stride));
    see(p.scales, Area::dense(problem.m, 4));
    see(p.sums, Area::dense(problem.m, 4));
  }
};

namespace activation_quantize {
TERN_OP_DRIVERS(ActivationQuantize)
}  // namespace activation_quantize
}  // namespace tern
