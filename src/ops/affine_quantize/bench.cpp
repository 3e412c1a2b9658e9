// affine_quantize for the bench: reads floats, so its limit is the streaming read.
#include "lab/affine_case.h"
#include "lab/bench_ops.h"

namespace tern::lab {

Result<OpCase> bench_affine_quantize(const BenchRequest& request, const Context& context) {
  return affine_case<AffineQuantize>(
      request, context, {}, Limit::streaming_read, {},
      [](const AffineCopies& of, std::int64_t i) -> AffineQuantize::Args {
        return {.x = of.floats(i), .scales = of.scales(i), .zero_points = {}, .codes = of.codes(i)};
      });
}

}  // namespace tern::lab
