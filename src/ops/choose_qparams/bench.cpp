// choose_qparams for the bench: reads floats, so its limit is the streaming read.
#include "lab/affine_case.h"
#include "lab/bench_ops.h"

namespace tern::lab {

Result<OpCase> bench_choose_qparams(const BenchRequest& request, const Context& context) {
  ChooseQparams::Problem problem;
  problem.method = request.method;
  problem.zero_points = request.method == QparamsMethod::minmax;
  auto made =
      affine_case<ChooseQparams>(request, context, problem, Limit::streaming_read, {},
                                 [](const AffineCopies& of, std::int64_t i) -> ChooseQparams::Args {
                                   return {.x = of.floats(i), .scales = of.scales(i), .zero_points = of.zero_points(i)};
                                 });
  if (!made.ok()) return made;
  // affine_case counts the bytes of codes, which this op does not write.
  TERN_ASSIGN(shape, affine_shape(request));
  TERN_ASSIGN(ranges, affine_scale_count(shape.shape, shape.granularity));
  made->bytes =
      shape.shape[0] * shape.shape[1] * static_cast<std::int64_t>(size_of(request.dtype.value_or(DType::f32))) +
      ranges * (problem.zero_points ? 8 : 4);
  made->problem["method"] = name(request.method);
  return made;
}

}  // namespace tern::lab
