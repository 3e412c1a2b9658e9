// fake_quantize for the bench, with its mask: reads floats and writes as many, so its limit is the copy.
#include "lab/affine_case.h"
#include "lab/bench_ops.h"
#include "tern/fake_quantize.h"

namespace tern::lab {

Result<OpCase> bench_fake_quantize(const BenchRequest& request, const Context& context) {
  return affine_case<FakeQuantize>(
      request, context, {.mask = true}, Limit::copy, {.floats = 2, .mask = true},
      [](const AffineCopies& of, std::int64_t i) -> FakeQuantize::Args {
        return {
            .x = of.floats(i, 0), .scales = of.scales(i), .zero_points = {}, .y = of.floats(i, 1), .mask = of.codes(i)};
      });
}

}  // namespace tern::lab
