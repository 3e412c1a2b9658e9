// The bench case of ternary_dequantize. Its limit is the non-temporal write, because it mostly writes weights.
#include "base/errors.h"
#include "lab/bench_ops.h"
#include "lab/plan_subject.h"
#include "lab/ternary_case.h"

namespace tern::lab {

Result<OpCase> bench_ternary_dequantize(const BenchRequest& request, const Context& context) {
  TERN_ASSIGN(source, ternary_problem(request));
  const TernaryDequantize::Problem problem{.rows = source.rows,
                                           .k = source.k,
                                           .dtype = source.dtype,
                                           .scheme = source.scheme,
                                           .granularity = source.granularity,
                                           .format = source.format};
  TERN_RETURN_IF_ERROR(check_kernels<TernaryDequantize>(request, context, problem));
  TERN_ASSIGN(made, TernaryCopies::make(request, context, source));
  const auto copies = std::make_shared<const TernaryCopies>(std::move(made));

  // Codes and scales come from quantizing the weights, which the timed runs then overwrite.
  std::vector<TernaryQuantize::Args> from;
  std::vector<TernaryDequantize::Args> args;
  for (std::int64_t i = 0; i < copies->copies(); ++i) {
    from.push_back(
        {.x = copies->weights(i), .codes = copies->codes(i), .scales = copies->scales(i), .given_scale = {}});
    args.push_back({.codes = copies->codes(i), .scales = copies->scales(i), .y = copies->weights(i)});
  }
  TERN_ASSIGN(quantize, plan_subject<TernaryQuantize>(context, source, {}, std::move(from), copies));
  for (std::int64_t i = 0; i < copies->copies(); ++i) TERN_RETURN_IF_ERROR(quantize.run(i));

  OpCase op_case;
  op_case.problem = problem_json(source);
  op_case.bytes = copies->bytes();
  op_case.limit = Limit::non_temporal_write;
  if (!copies->note().empty()) op_case.notes.push_back(copies->note());
  op_case.ready = [copies, problem, args](const Context& on, const Preference& preference) {
    return plan_subject<TernaryDequantize>(on, problem, preference, args, copies);
  };
  return op_case;
}

}  // namespace tern::lab
