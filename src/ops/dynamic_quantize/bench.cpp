// dynamic_quantize for the bench: reads floats, so its limit is the streaming read.
#include "lab/affine_case.h"
#include "lab/bench_ops.h"

namespace tern::lab {

Result<OpCase> bench_dynamic_quantize(const BenchRequest& request, const Context& context) {
  DynamicQuantize::Problem problem;
  problem.method = request.method;
  problem.zero_points = request.method == QparamsMethod::minmax;
  auto made = affine_case<DynamicQuantize>(
      request, context, problem, Limit::streaming_read, {},
      [](const AffineCopies& of, std::int64_t i) -> DynamicQuantize::Args {
        return {.x = of.floats(i), .codes = of.codes(i), .scales = of.scales(i), .zero_points = of.zero_points(i)};
      });
  if (!made.ok()) return made;
  made->problem["method"] = name(request.method);
  return made;
}

}  // namespace tern::lab
