// Problems of dynamic_quantize: both methods and every math, awkward ranges, ragged groups.
#include "lab/op_selftest.h"
#include "lab/qparams_problems.h"

namespace tern::lab {

template <>
std::optional<Sample<DynamicQuantize>> next_sample(Random& random, const KernelDescription& kernel, Format format,
                                                   int number) {
  if (number == 60) return {};
  QparamsInput in = random_qparams(random, random_dtype(random, kernel), format);
  const DynamicQuantize::Problem p = dynamic_of(in.problem, static_cast<AffineMath>(random.below(3)));
  return Sample<DynamicQuantize>{
      .problem = p, .inputs = {{"x", std::move(in.x)}}, .text = describe_choice(p), .spoil = spoil_chosen};
}

}  // namespace tern::lab
