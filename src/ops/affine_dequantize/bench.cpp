// affine_dequantize for the bench: writes floats, so its limit is the non-temporal write.
#include "base/errors.h"
#include "lab/affine_case.h"
#include "lab/bench_ops.h"
#include "lab/plan_subject.h"

namespace tern::lab {

Result<OpCase> bench_affine_dequantize(const BenchRequest& request, const Context& context) {
  TERN_ASSIGN(shape, affine_shape(request));
  const AffineDequantize::Problem problem{.shape = shape.shape,
                                          .granularity = shape.granularity,
                                          .dtype = request.dtype.value_or(DType::f32),
                                          .format = request.format.value_or(Format::s8)};
  TERN_RETURN_IF_ERROR(AffineDequantizePlan::select(context, problem));
  TERN_ASSIGN(made,
              AffineCopies::make(request, context, problem.shape, problem.granularity, problem.dtype, problem.format));
  const auto copies = std::make_shared<const AffineCopies>(std::move(made));
  std::vector<AffineDequantize::Args> args;
  for (std::int64_t i = 0; i < copies->copies(); ++i)
    args.push_back({.codes = copies->codes(i), .scales = copies->scales(i), .zero_points = {}, .y = copies->floats(i)});
  OpCase op_case;
  op_case.problem = copies->problem();
  op_case.bytes = copies->bytes();
  op_case.limit = Limit::non_temporal_write;
  op_case.notes.emplace_back("codes and scales are read beside what the limit writes, so the share can be above 100 %");
  if (!copies->note().empty()) op_case.notes.push_back(copies->note());
  op_case.ready = [copies, problem, args](const Context& on, const Preference& preference) {
    return plan_subject<AffineDequantize>(on, problem, preference, args, copies);
  };
  return op_case;
}

}  // namespace tern::lab
