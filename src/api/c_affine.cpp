// The C ABI: converts problems, arguments and words of the affine ops to C++.
#include "api/c_affine.h"

namespace tern::c {

Result<AffineGranularity> to_affine_granularity(const char* where, const char* field,
                                                const tern_affine_granularity& granularity) {
  TERN_ASSIGN(kind, to_enum(where, field, granularity.kind, AffineGranularity::Kind::group, ".kind"));
  return AffineGranularity{kind, granularity.axis, granularity.group_size};
}

Result<AffineQuantize::Problem> to_problem(const char* where, const tern_affine_quantize_problem* problem) {
  TERN_ASSIGN(given, read_struct(where, "problem", problem));
  TERN_ASSIGN(made, to_affine<AffineQuantize::Problem>(where, given));
  TERN_ASSIGN(math, to_enum(where, "problem->math", given.math, kLastAffineMath));
  TERN_ASSIGN(non_finite, to_enum(where, "problem->non_finite", given.non_finite, kLastNonFinite));
  made.q_min = given_bound(given, given.q_min);
  made.q_max = given_bound(given, given.q_max);
  made.math = math;
  made.non_finite = non_finite;
  return made;
}

Result<AffineQuantize::Args> to_args(const char* where, const tern_affine_quantize_args* args) {
  TERN_ASSIGN(given, read_struct(where, "args", args));
  TERN_ASSIGN(x, to_view(where, "x", given.x));
  TERN_ASSIGN(scales, to_view(where, "scales", given.scales));
  TERN_ASSIGN(zero_points, to_view(where, "zero_points", given.zero_points));
  TERN_ASSIGN(codes, to_view(where, "codes", given.codes));
  return AffineQuantize::Args{.x = x, .scales = scales, .zero_points = zero_points, .codes = codes};
}

Result<AffineDequantize::Problem> to_problem(const char* where, const tern_affine_dequantize_problem* problem) {
  TERN_ASSIGN(given, read_struct(where, "problem", problem));
  return to_affine<AffineDequantize::Problem>(where, given);
}

Result<AffineDequantize::Args> to_args(const char* where, const tern_affine_dequantize_args* args) {
  TERN_ASSIGN(given, read_struct(where, "args", args));
  TERN_ASSIGN(codes, to_view(where, "codes", given.codes));
  TERN_ASSIGN(scales, to_view(where, "scales", given.scales));
  TERN_ASSIGN(zero_points, to_view(where, "zero_points", given.zero_points));
  TERN_ASSIGN(y, to_view(where, "y", given.y));
  return AffineDequantize::Args{.codes = codes, .scales = scales, .zero_points = zero_points, .y = y};
}

}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

tern_status tern_affine_granularity_parse(const char* text, tern_affine_granularity* out) {
  return parse("tern_affine_granularity_parse", text, out, parse_affine_granularity, [](const AffineGranularity& g) {
    return tern_affine_granularity{static_cast<tern_affine_granularity_kind>(g.kind), g.axis, g.group_size};
  });
}

tern_status tern_affine_math_parse(const char* text, tern_affine_math* out) {
  return parse("tern_affine_math_parse", text, out, parse_affine_math);
}

tern_status tern_affine_scale_count(int32_t rank, const int64_t* shape, tern_affine_granularity granularity,
                                    int64_t* out) {
  return guarded("tern_affine_scale_count", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"out", out}}));
    if (rank != 0) TERN_RETURN_IF_ERROR(not_null(where, {{"shape", shape}}));
    TERN_ASSIGN(sizes, to_shape(where, "shape", rank, shape));
    TERN_ASSIGN(kind, to_affine_granularity(where, "granularity", granularity));
    TERN_ASSIGN(count, affine_scale_count(sizes, kind));
    *out = count;
    return {};
  });
}
