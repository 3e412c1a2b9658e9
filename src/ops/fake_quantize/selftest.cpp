// Problems of fake_quantize: those of affine_quantize, with a mask or without.
#include "lab/fake_problems.h"
#include "lab/op_selftest.h"

namespace tern::lab {

template <>
std::optional<Sample<FakeQuantize>> next_sample(Random& random, const KernelDescription& kernel, Format format,
                                                int number) {
  if (number == 60) return {};
  FakeInput in = random_fake(random, random_dtype(random, kernel), format);
  return Sample<FakeQuantize>{
      .problem = in.problem,
      .inputs = {{"x", std::move(in.x)}, {"scales", std::move(in.scales)}, {"zero_points", bytes_in(in.zero_points)}},
      .text = describe_fake(in.problem),
      .spoil = spoil_x};
}

}  // namespace tern::lab
