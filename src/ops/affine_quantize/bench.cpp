// affine_quantize for the bench: reads floats, so its limit is the streaming read.
#include <array>
#include <cstring>

#include "base/errors.h"
#include "format/format.h"
#include "lab/affine_case.h"
#include "lab/bench_ops.h"
#include "lab/plan_subject.h"

namespace tern::lab {

Result<OpCase> bench_affine_quantize(const BenchRequest& request, const Context& context) {
  TERN_ASSIGN(shape, affine_shape(request));
  const AffineQuantize::Problem problem{.shape = shape.shape,
                                        .granularity = shape.granularity,
                                        .dtype = request.dtype.value_or(DType::f32),
                                        .format = request.format.value_or(Format::s8)};
  // Before a gigabyte is filled: does any kernel take it?
  TERN_RETURN_IF_ERROR(AffineQuantizePlan::select(context, problem));
  TERN_ASSIGN(made,
              AffineCopies::make(request, context, problem.shape, problem.granularity, problem.dtype, problem.format));
  const auto copies = std::make_shared<const AffineCopies>(std::move(made));
  std::vector<AffineQuantize::Args> args;
  for (std::int64_t i = 0; i < copies->copies(); ++i)
    args.push_back({.x = copies->floats(i), .scales = copies->scales(i), .zero_points = {}, .codes = copies->codes(i)});
  OpCase op_case;
  op_case.problem = copies->problem();
  op_case.bytes = copies->bytes();
  op_case.limit = Limit::streaming_read;
  if (!copies->note().empty()) op_case.notes.push_back(copies->note());
  op_case.ready = [copies, problem, args](const Context& on, const Preference& preference) {
    return plan_subject<AffineQuantize>(on, problem, preference, args, copies);
  };
  return op_case;
}

}  // namespace tern::lab
