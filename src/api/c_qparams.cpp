// The C ABI: converts problems, arguments and words of choose_qparams and dynamic_quantize to C++.
#include "api/c_affine.h"

namespace tern::c {
namespace {

// Converts the fields that both problems share.
template <class Problem, class Given>
Result<Problem> to_either(const char* where, const Given& given) {
  TERN_ASSIGN(problem, to_affine<Problem>(where, given));
  TERN_ASSIGN(method, to_enum(where, "problem->method", given.method, kLastQparamsMethod));
  TERN_ASSIGN(non_finite, to_enum(where, "problem->non_finite", given.non_finite, kLastNonFinite));
  problem.method = method;
  problem.q_min = given_bound(given, given.q_min);
  problem.q_max = given_bound(given, given.q_max);
  problem.eps = given.eps;
  problem.non_finite = non_finite;
  return problem;
}

}  // namespace

Result<ChooseQparams::Problem> to_problem(const char* where, const tern_choose_qparams_problem* problem) {
  TERN_ASSIGN(given, read_struct(where, "problem", problem));
  TERN_ASSIGN(made, to_either<ChooseQparams::Problem>(where, given));
  made.percentile = given.percentile;
  return made;
}

Result<ChooseQparams::Args> to_args(const char* where, const tern_choose_qparams_args* args) {
  TERN_ASSIGN(given, read_struct(where, "args", args));
  TERN_ASSIGN(x, to_view(where, "x", given.x));
  TERN_ASSIGN(scales, to_view(where, "scales", given.scales));
  TERN_ASSIGN(zero_points, to_view(where, "zero_points", given.zero_points));
  return ChooseQparams::Args{.x = x, .scales = scales, .zero_points = zero_points};
}

Result<DynamicQuantize::Problem> to_problem(const char* where, const tern_dynamic_quantize_problem* problem) {
  TERN_ASSIGN(given, read_struct(where, "problem", problem));
  TERN_ASSIGN(made, to_either<DynamicQuantize::Problem>(where, given));
  TERN_ASSIGN(math, to_enum(where, "problem->math", given.math, kLastAffineMath));
  made.math = math;
  return made;
}

Result<DynamicQuantize::Args> to_args(const char* where, const tern_dynamic_quantize_args* args) {
  TERN_ASSIGN(given, read_struct(where, "args", args));
  TERN_ASSIGN(x, to_view(where, "x", given.x));
  TERN_ASSIGN(codes, to_view(where, "codes", given.codes));
  TERN_ASSIGN(scales, to_view(where, "scales", given.scales));
  TERN_ASSIGN(zero_points, to_view(where, "zero_points", given.zero_points));
  return DynamicQuantize::Args{.x = x, .codes = codes, .scales = scales, .zero_points = zero_points};
}

}  // namespace tern::c

tern_status tern_qparams_method_parse(const char* text, tern_qparams_method* out) {
  return tern::c::guarded("tern_qparams_method_parse", [&](const char* where) -> tern::Status {
    TERN_RETURN_IF_ERROR(tern::c::not_null(where, {{"text", text}, {"out", out}}));
    TERN_ASSIGN(parsed, tern::parse_qparams_method(text));
    *out = static_cast<tern_qparams_method>(parsed);
    return {};
  });
}
