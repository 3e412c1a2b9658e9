// Random problems of the ops that choose scales, with their data: every method, awkward ranges, ragged groups.
#pragma once

#include <algorithm>
#include <cmath>

#include "lab/affine_problems.h"
#include "tern/qparams.h"

namespace tern::lab {

template <class Problem>
std::string describe_choice(const Problem& p) {
  return fmt::format("{} {} {} {} {}{} scales {} q {}..{} eps {} {}", name(p.shape), name(p.dtype), name(p.granularity),
                     name(p.format), name(p.method), p.zero_points ? " zero points" : "", name(p.scale_dtype),
                     bounds_of(p).min, bounds_of(p).max, p.eps, name(p.non_finite));
}

struct QparamsInput {
  ChooseQparams::Problem problem;
  std::vector<std::byte> x;
};

// The values are on one or both sides of 0, all equal, all 0, tiny, huge, or with outliers.
inline QparamsInput random_qparams(Random& random, DType dtype, Format format) {
  QparamsInput in;
  auto& p = in.problem;
  p.shape = random_shape(random);
  p.granularity = random_granularity(random, p.shape);
  p.dtype = dtype;
  p.format = format;
  p.scale_dtype = random.below(2) == 0 ? DType::f32 : dtype;
  const std::int64_t elements = *element_count(p.shape);
  p.method = static_cast<QparamsMethod>(random.below(elements < 1000 ? 4 : 3));  // mse is slow in the reference
  const CodeRange all = code_range(format);
  p.zero_points =
      p.method == QparamsMethod::minmax || all.min == 0 || (p.method != QparamsMethod::absmax && random.below(2) == 0);
  if (all.min == 0 && p.method == QparamsMethod::absmax) p.method = QparamsMethod::minmax;
  if (random.below(3) == 0) {
    p.q_min = all.min + 1;
    p.q_max = all.max;
  }
  p.percentile = random.below(2) == 0 ? 99.0 : 50.5 + static_cast<double>(random.below(99)) / 2;
  if (random.below(4) == 0) p.eps = 0x1p-20F;
  in.x.resize(static_cast<std::size_t>(elements) * size_of(dtype));
  const std::int64_t kind = random.below(8);
  for (std::int64_t i = 0; i < elements; ++i) {
    auto v = static_cast<double>(random.gaussian());
    if (kind == 1) v = std::fabs(v) + 2;
    if (kind == 2) v = -std::fabs(v);
    if (kind == 3) v = -0.375;
    if (kind == 4) v = random.below(2) == 0 ? 0.0 : -0.0;
    if (kind == 5) v = std::ldexp(v, dtype == DType::f16 ? -20 : -130);
    if (kind == 6) v = v * (dtype == DType::f16 ? 1e4 : 1e37);
    if (kind == 7 && random.below(20) == 0) v *= 30;
    write_element(in.x.data(), dtype, i, dtype == DType::f16 ? std::clamp(v, -65504.0, 65504.0) : v);
  }
  return in;
}

// A problem of dynamic_quantize with the same data; methods that dynamic_quantize lacks become minmax or absmax.
inline DynamicQuantize::Problem dynamic_of(const ChooseQparams::Problem& p, AffineMath math) {
  return {.shape = p.shape,
          .granularity = p.granularity,
          .dtype = p.dtype,
          .format = p.format,
          .scale_dtype = p.scale_dtype,
          .method = p.zero_points ? QparamsMethod::minmax : QparamsMethod::absmax,
          .zero_points = p.zero_points,
          .q_min = p.q_min,
          .q_max = p.q_max,
          .eps = p.eps,
          .math = math,
          .non_finite = p.non_finite};
}

}  // namespace tern::lab
