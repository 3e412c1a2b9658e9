// choose_qparams for the bench: reads floats.
#include "lab/op_bench.h"

namespace tern::lab {

template <>
BenchFacts<ChooseQparams> bench_facts() {
  return {.limit = Limit::streaming_read};
}

}  // namespace tern::lab
