// The C ABI: what the problems of the affine ops share.
#pragma once

#include "api/c_abi.h"

namespace tern::c {

Result<AffineGranularity> to_affine_granularity(const char* where, const char* field,
                                                const tern_affine_granularity& granularity);

// A bound of the codes, if it was given. If q_given is 0, two bounds of 0 mean "not given".
template <class Given>
std::optional<int> given_bound(const Given& given, std::int32_t bound) {
  if (given.q_given == 0 && given.q_min == 0 && given.q_max == 0) return std::nullopt;
  return bound;
}

// Converts the fields that all affine problems share.
template <class Problem, class Given>
Result<Problem> to_affine(const char* where, const Given& given) {
  Problem problem;
  TERN_ASSIGN(shape, to_shape(where, "problem->shape", given.rank, given.shape));
  TERN_ASSIGN(granularity, to_affine_granularity(where, "problem->granularity", given.granularity));
  TERN_ASSIGN(dtype, to_enum(where, "problem->dtype", given.dtype, kLastDType));
  TERN_ASSIGN(format, to_enum(where, "problem->format", given.format, kLastFormat));
  TERN_ASSIGN(scale_dtype, to_enum(where, "problem->scale_dtype", given.scale_dtype, kLastDType));
  problem.shape = shape;
  problem.granularity = granularity;
  problem.dtype = dtype;
  problem.format = format;
  problem.scale_dtype = scale_dtype;
  problem.zero_points = given.zero_points != 0;
  problem.even_groups = given.even_groups != 0;
  return problem;
}

}  // namespace tern::c
