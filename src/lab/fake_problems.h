// Random problems of fake_quantize with their data, from those of affine_quantize.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lab/affine_problems.h"
#include "tern/fake_quantize.h"

namespace tern::lab {

struct FakeInput {
  FakeQuantize::Problem problem;
  std::vector<std::byte> x, scales;
  std::vector<std::int32_t> zero_points;
};

inline FakeInput fake_of(AffineInput from) {
  const auto& p = from.problem;
  return {.problem = {.shape = p.shape,
                      .granularity = p.granularity,
                      .dtype = p.dtype,
                      .format = p.format,
                      .scale_dtype = p.scale_dtype,
                      .zero_points = p.zero_points,
                      .q_min = p.q_min,
                      .q_max = p.q_max,
                      .math = p.math,
                      .non_finite = p.non_finite},
          .x = std::move(from.x),
          .scales = std::move(from.scales),
          .zero_points = std::move(from.zero_points)};
}

inline FakeInput random_fake(Random& random, DType dtype, Format format) {
  FakeInput in = fake_of(random_affine(random, dtype, format));
  in.problem.mask = random.below(4) != 0;
  in.problem.strict = in.problem.mask && random.below(3) == 0;
  return in;
}

template <class Problem>
std::string describe_fake(const Problem& p) {
  return fmt::format("{} {} {} {} scales {}{} q {}..{} {} {}{}", name(p.shape), name(p.dtype), name(p.granularity),
                     name(p.format), name(p.scale_dtype), p.zero_points ? " zero points" : "", p.q_min, p.q_max,
                     name(p.math), name(p.non_finite), p.strict ? " strict" : "");
}

// Where two runs of bytes differ first, as an element of the type; empty when they are the same.
inline std::string first_difference(const char* what, const std::vector<std::byte>& got,
                                    const std::vector<std::byte>& want, DType dtype) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (got[i] == want[i]) continue;
    const auto at = static_cast<std::int64_t>(i / size_of(dtype));
    if (dtype == DType::u8)
      return fmt::format("{} (element {}) is {}, the reference has {}", what, at, static_cast<int>(got[i]),
                         static_cast<int>(want[i]));
    return fmt::format("{} (element {}) is {}, the reference has {}", what, at, read_element(got.data(), dtype, at),
                       read_element(want.data(), dtype, at));
  }
  return {};
}

}  // namespace tern::lab
