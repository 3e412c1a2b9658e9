// Problems of fake_quantize_backward: from x, with gradients of the scales or without, or from a mask.
#include "lab/fake_problems.h"
#include "lab/op_selftest.h"

namespace tern::lab {

template <>
std::optional<Sample<FakeQuantizeBackward>> next_sample(Random& random, const KernelDescription& kernel, Format format,
                                                        int number) {
  if (number == 80) return {};
  BackwardInput in = random_backward(random, random_dtype(random, kernel), format);
  return Sample<FakeQuantizeBackward>{.problem = in.problem,
                                      .inputs = {{"grad_y", std::move(in.grad_y)},
                                                 {"x", std::move(in.x)},
                                                 {"scales", std::move(in.scales)},
                                                 {"zero_points", bytes_in(in.zero_points)},
                                                 {"mask", std::move(in.mask)}},
                                      .text = describe_fake(in.problem)};
}

}  // namespace tern::lab
