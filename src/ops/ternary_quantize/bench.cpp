// ternary_quantize for the bench: reads weights, so its limit is the streaming read.
#include "base/errors.h"
#include "lab/bench_ops.h"
#include "lab/plan_subject.h"
#include "lab/ternary_case.h"

namespace tern::lab {

Result<OpCase> bench_ternary_quantize(const BenchRequest& request, const Context& context) {
  TERN_ASSIGN(problem, ternary_problem(request));
  // Before a gigabyte is filled: does any kernel take it?
  TERN_RETURN_IF_ERROR(TernaryQuantizePlan::select(context, problem));
  TERN_ASSIGN(made, TernaryCopies::make(request, context, problem));
  const auto copies = std::make_shared<const TernaryCopies>(std::move(made));

  OpCase op_case;
  op_case.problem = problem_json(problem);
  op_case.bytes = copies->bytes();
  op_case.limit = Limit::streaming_read;
  if (!copies->note().empty()) op_case.notes.push_back(copies->note());
  op_case.ready = [copies, problem](const Context& on, const Preference& preference) -> Result<Subject> {
    std::vector<TernaryQuantize::Args> args;
    for (std::int64_t i = 0; i < copies->copies(); ++i)
      args.push_back(
          {.x = copies->weights(i), .codes = copies->codes(i), .scales = copies->scales(i), .given_scale = {}});
    return plan_subject<TernaryQuantize>(on, problem, preference, std::move(args), copies);
  };
  return op_case;
}

}  // namespace tern::lab
