// Problems of affine_quantize: every granularity and math, ties, values far outside the range.
#include "lab/affine_problems.h"
#include "lab/op_selftest.h"

namespace tern::lab {

template <>
std::optional<Sample<AffineQuantize>> next_sample(Random& random, const KernelDescription& kernel, Format format,
                                                  int number) {
  if (number == 120) return {};
  AffineInput in = random_affine(random, random_dtype(random, kernel), format);
  return Sample<AffineQuantize>{
      .problem = in.problem,
      .inputs = {{"x", std::move(in.x)}, {"scales", std::move(in.scales)}, {"zero_points", bytes_in(in.zero_points)}},
      .text = describe(in.problem),
      .spoil = spoil_x};
}

}  // namespace tern::lab
