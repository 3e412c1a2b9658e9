// The bench case of ternary_quantize. Its limit is the streaming read, because it mostly reads weights.
#include <chrono>

#include "base/errors.h"
#include "lab/bench_ops.h"
#include "lab/plan_subject.h"
#include "lab/random_weights.h"
#include "lab/ternary_case.h"
#include "plan/context_state.h"

namespace tern::lab {
namespace {

// Times quantize() of a host tensor, with the copies both ways and the allocation of the results.
Result<OpCase> from_host_case(const BenchRequest& request, const Context& context,
                              const TernaryQuantize::Problem& problem) {
  if (context.device().id.kind != DeviceKind::cuda)
    return error(Code::invalid_argument, request.op, "--from is for a GPU, this is {}", name(context.device().id));
  const bool pinned = *request.from_host == HostMemoryKind::pinned;
  auto memory = host_memory();
  const auto start = std::chrono::steady_clock::now();
  if (pinned) {
    TERN_ASSIGN(locked, pinned_memory());
    memory = std::move(locked);
  }
  TERN_ASSIGN(x, Tensor::allocate(memory, problem.dtype, {problem.rows, problem.k}, "bench"));
  const double pinning_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fill_random_weights(context.state().threads, 1, problem.dtype, x.data(), problem.rows * problem.k);
  const auto tensor = std::make_shared<const Tensor>(std::move(x));

  OpCase op_case;
  op_case.problem = problem_json(problem);
  op_case.problem["from"] = pinned ? "pinned" : "pageable";
  op_case.bytes = static_cast<std::int64_t>(tensor->bytes());
  op_case.limit = Limit::host_to_device;
  op_case.waits = true;
  if (pinned)
    op_case.notes.push_back(fmt::format("allocating {} pinned bytes took {:.2f} s", tensor->bytes(), pinning_s));
  op_case.ready = [tensor, problem](const Context& on, const Preference& preference) -> Result<Subject> {
    const QuantizeOptions options{.scheme = problem.scheme,
                                  .granularity = problem.granularity,
                                  .format = problem.format,
                                  .preference = preference};
    TERN_ASSIGN(plan, TernaryQuantizePlan::select(on, problem, preference));
    return Subject{.kernel = plan.id().kernel, .run = [tensor, options, on](std::int64_t) -> Status {
                     auto q = quantize(on, tensor->view(), options);
                     return q.ok() ? Status() : Status(std::move(q).error());
                   }};
  };
  return op_case;
}

}  // namespace

Result<OpCase> bench_ternary_quantize(const BenchRequest& request, const Context& context) {
  TERN_ASSIGN(problem, ternary_problem(request));
  TERN_RETURN_IF_ERROR(check_kernels<TernaryQuantize>(request, context, problem));
  if (request.from_host) return from_host_case(request, context, problem);
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
