// fake_quantize_backward for the bench, from a mask, or with zero points from x with the gradients of the scales:
// reads gradients and writes as many.
#include "lab/op_bench.h"

namespace tern::lab {

template <>
BenchFacts<FakeQuantizeBackward> bench_facts() {
  return {.limit = Limit::copy, .adjust = [](FakeQuantizeBackward::Problem& p) {
            p.from_mask = !p.zero_points;
            p.qparam_gradients = p.zero_points;
          }};
}

}  // namespace tern::lab
