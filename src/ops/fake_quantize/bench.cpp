// fake_quantize for the bench, with its mask: reads floats and writes as many.
#include "lab/op_bench.h"

namespace tern::lab {

template <>
BenchFacts<FakeQuantize> bench_facts() {
  return {.limit = Limit::copy, .adjust = [](FakeQuantize::Problem& p) { p.mask = true; }};
}

}  // namespace tern::lab
