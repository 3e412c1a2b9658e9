// activation_quantize for the bench: mostly reads tokens.
#include "lab/op_bench.h"

namespace tern::lab {

template <>
BenchFacts<ActivationQuantize> bench_facts() {
  return {.limit = Limit::streaming_read, .k = 2560};
}

}  // namespace tern::lab
