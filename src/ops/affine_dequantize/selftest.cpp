// Problems of affine_dequantize: random codes, scales and zero points.
#include "lab/affine_problems.h"
#include "lab/op_selftest.h"

namespace tern::lab {

template <>
std::optional<Sample<AffineDequantize>> next_sample(Random& random, const KernelDescription& kernel, Format format,
                                                    int number) {
  if (number == 120) return {};
  AffineCodes in = random_codes(random, random_dtype(random, kernel), format);
  return Sample<AffineDequantize>{.problem = in.problem,
                                  .inputs = {{"codes", bytes_in(in.codes)},
                                             {"scales", std::move(in.scales)},
                                             {"zero_points", bytes_in(in.zero_points)}},
                                  .text = describe(in.problem)};
}

}  // namespace tern::lab
