// Random problems of fake_quantize and its backward with their data, derived from those of affine_quantize.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lab/affine_problems.h"
#include "ops/affine/affine.h"
#include "tern/fake_quantize.h"

namespace tern::lab {

struct FakeInput {
  FakeQuantize::Problem problem;
  std::vector<std::byte> x, scales;
  std::vector<std::int32_t> zero_points;
};

inline FakeInput random_fake(Random& random, DType dtype, Format format) {
  AffineInput from = random_affine(random, dtype, format);
  FakeInput in{.problem = affine::problem_of<FakeQuantize>(from.problem),
               .x = std::move(from.x),
               .scales = std::move(from.scales),
               .zero_points = std::move(from.zero_points)};
  in.problem.mask = random.below(4) != 0;
  in.problem.strict = in.problem.mask && random.below(3) == 0;
  return in;
}

struct BackwardInput {
  FakeQuantizeBackward::Problem problem;
  std::vector<std::byte> grad_y, x, scales, mask;
  std::vector<std::int32_t> zero_points;
};

// Computes the gradients from x, with or without those of the scales, or from a mask.
inline BackwardInput random_backward(Random& random, DType dtype, Format format) {
  FakeInput from = random_fake(random, dtype, format);
  BackwardInput in{.problem = affine::problem_of<FakeQuantizeBackward>(from.problem),
                   .grad_y = {},
                   .x = std::move(from.x),
                   .scales = std::move(from.scales),
                   .mask = {},
                   .zero_points = std::move(from.zero_points)};
  in.problem.strict = from.problem.strict;
  const std::int64_t elements = *element_count(in.problem.shape);
  in.grad_y.resize(static_cast<std::size_t>(elements) * size_of(dtype));
  for (std::int64_t i = 0; i < elements; ++i)
    write_element(in.grad_y.data(), dtype, i, static_cast<double>(random.gaussian()));
  in.mask.resize(static_cast<std::size_t>(elements));
  for (auto& inside : in.mask) inside = static_cast<std::byte>(random.below(2));
  const std::int64_t mode = random.below(4);
  in.problem.from_mask = mode == 0;
  in.problem.qparam_gradients = mode > 1;
  in.problem.grad_factor = mode == 2 ? 0.37 : 1;
  return in;
}

template <class Problem>
std::string describe_fake(const Problem& p) {
  return fmt::format("{} {} {} {} scales {}{} q {}..{} {} {}{}", name(p.shape), name(p.dtype), name(p.granularity),
                     name(p.format), name(p.scale_dtype), p.zero_points ? " zero points" : "", bounds_of(p).min,
                     bounds_of(p).max, name(p.math), name(p.non_finite), p.strict ? " strict" : "");
}

}  // namespace tern::lab
