// The C ABI: converts problems and arguments of fake_quantize and its backward to C++.
#include "api/c_affine.h"

namespace tern::c {
namespace {

// Converts the fields that both problems share.
template <class Problem, class CProblem>
Result<Problem> to_fake_problem(const char* where, const CProblem& given) {
  TERN_ASSIGN(shape, to_shape(where, "problem->shape", given.rank, given.shape));
  TERN_ASSIGN(kind,
              to_enum(where, "problem->granularity", given.granularity.kind, AffineGranularity::Kind::group, ".kind"));
  TERN_ASSIGN(dtype, to_enum(where, "problem->dtype", given.dtype, kLastDType));
  TERN_ASSIGN(format, to_enum(where, "problem->format", given.format, kLastFormat));
  TERN_ASSIGN(scale_dtype, to_enum(where, "problem->scale_dtype", given.scale_dtype, kLastDType));
  TERN_ASSIGN(math, to_enum(where, "problem->math", given.math, kLastAffineMath));
  TERN_ASSIGN(non_finite, to_enum(where, "problem->non_finite", given.non_finite, kLastNonFinite));
  return Problem{.shape = shape,
                 .granularity = {kind, given.granularity.axis, given.granularity.group_size},
                 .dtype = dtype,
                 .format = format,
                 .scale_dtype = scale_dtype,
                 .zero_points = given.zero_points != 0,
                 .q_min = given_bound(given, given.q_min),
                 .q_max = given_bound(given, given.q_max),
                 .math = math,
                 .non_finite = non_finite,
                 .even_groups = given.even_groups != 0,
                 .strict = given.strict != 0};
}

}  // namespace

Result<FakeQuantize::Problem> to_problem(const char* where, const tern_fake_quantize_problem* problem) {
  TERN_ASSIGN(given, read_struct(where, "problem", problem));
  TERN_ASSIGN(made, to_fake_problem<FakeQuantize::Problem>(where, given));
  made.mask = given.mask != 0;
  return made;
}

Result<FakeQuantize::Args> to_args(const char* where, const tern_fake_quantize_args* args) {
  TERN_ASSIGN(given, read_struct(where, "args", args));
  TERN_ASSIGN(x, to_view(where, "x", given.x));
  TERN_ASSIGN(scales, to_view(where, "scales", given.scales));
  TERN_ASSIGN(zero_points, to_view(where, "zero_points", given.zero_points));
  TERN_ASSIGN(y, to_view(where, "y", given.y));
  TERN_ASSIGN(mask, to_view(where, "mask", given.mask));
  return FakeQuantize::Args{.x = x, .scales = scales, .zero_points = zero_points, .y = y, .mask = mask};
}

Result<FakeQuantizeBackward::Problem> to_problem(const char* where,
                                                 const tern_fake_quantize_backward_problem* problem) {
  TERN_ASSIGN(given, read_struct(where, "problem", problem));
  TERN_ASSIGN(made, to_fake_problem<FakeQuantizeBackward::Problem>(where, given));
  made.from_mask = given.from_mask != 0;
  made.qparam_gradients = given.qparam_gradients != 0;
  made.grad_factor = given.grad_factor;
  return made;
}

Result<FakeQuantizeBackward::Args> to_args(const char* where, const tern_fake_quantize_backward_args* args) {
  TERN_ASSIGN(given, read_struct(where, "args", args));
  TERN_ASSIGN(grad_y, to_view(where, "grad_y", given.grad_y));
  TERN_ASSIGN(x, to_view(where, "x", given.x));
  TERN_ASSIGN(scales, to_view(where, "scales", given.scales));
  TERN_ASSIGN(zero_points, to_view(where, "zero_points", given.zero_points));
  TERN_ASSIGN(mask, to_view(where, "mask", given.mask));
  TERN_ASSIGN(grad_x, to_view(where, "grad_x", given.grad_x));
  TERN_ASSIGN(grad_scales, to_view(where, "grad_scales", given.grad_scales));
  TERN_ASSIGN(grad_zero_points, to_view(where, "grad_zero_points", given.grad_zero_points));
  return FakeQuantizeBackward::Args{.grad_y = grad_y,
                                    .x = x,
                                    .scales = scales,
                                    .zero_points = zero_points,
                                    .mask = mask,
                                    .grad_x = grad_x,
                                    .grad_scales = grad_scales,
                                    .grad_zero_points = grad_zero_points};
}

}  // namespace tern::c
