// Problems of choose_qparams: every method, awkward ranges, ragged groups.
#include "lab/op_selftest.h"
#include "lab/qparams_problems.h"

namespace tern::lab {

template <>
std::optional<Sample<ChooseQparams>> next_sample(Random& random, const KernelDescription& kernel, Format format,
                                                 int number) {
  if (number == 60) return {};
  QparamsInput in = random_qparams(random, random_dtype(random, kernel), format);
  return Sample<ChooseQparams>{.problem = in.problem,
                               .inputs = {{"x", std::move(in.x)}},
                               .text = describe_choice(in.problem),
                               .spoil = spoil_chosen};
}

}  // namespace tern::lab
