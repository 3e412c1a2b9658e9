// affine_quantize for the bench: mostly reads floats.
#include "lab/op_bench.h"

namespace tern::lab {

template <>
BenchFacts<AffineQuantize> bench_facts() {
  return {.limit = Limit::streaming_read};
}

}  // namespace tern::lab
