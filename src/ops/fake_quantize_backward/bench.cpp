// fake_quantize_backward for the bench, from a mask: reads gradients and writes as many, so its limit is the copy.
#include "lab/affine_case.h"
#include "lab/bench_ops.h"
#include "tern/fake_quantize.h"

namespace tern::lab {

Result<OpCase> bench_fake_quantize_backward(const BenchRequest& request, const Context& context) {
  return affine_case<FakeQuantizeBackward>(request, context, {.from_mask = true}, Limit::copy,
                                           {.floats = 2, .mask = true},
                                           [](const AffineCopies& of, std::int64_t i) -> FakeQuantizeBackward::Args {
                                             return {.grad_y = of.floats(i, 0),
                                                     .x = {},
                                                     .scales = {},
                                                     .zero_points = {},
                                                     .mask = of.codes(i),
                                                     .grad_x = of.floats(i, 1),
                                                     .grad_scales = {},
                                                     .grad_zero_points = {}};
                                           });
}

}  // namespace tern::lab
