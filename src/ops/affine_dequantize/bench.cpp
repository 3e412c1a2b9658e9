// affine_dequantize for the bench: mostly writes floats.
#include "lab/op_bench.h"

namespace tern::lab {

template <>
BenchFacts<AffineDequantize> bench_facts() {
  return {.limit = Limit::non_temporal_write,
          .notes = {"codes and scales are read beside what the limit writes, so the share can be above 100 %"}};
}

}  // namespace tern::lab
