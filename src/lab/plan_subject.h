// Makes a subject of the bench from any op's plan: selects it, allocates its workspace, keeps the arguments of every
// copy.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "lab/bench.h"
#include "plan/run_once.h"

namespace tern::lab {

// Checks, before a gigabyte is filled, that the kernel that was asked for (or any) accepts the problem.
template <class Op>
Status check_kernels(const BenchRequest& request, const Context& context, const typename Op::Problem& problem) {
  TERN_RETURN_IF_ERROR(Plan<Op>::select(
      context, problem, {.kernel = request.kernel, .strict = !request.kernel.empty(), .tuning = request.tuning}));
  return {};
}

// `buffers` owns what the arguments point to, for as long as the subject lives.
template <class Op>
Result<Subject> plan_subject(const Context& context, const typename Op::Problem& problem, const Preference& preference,
                             std::vector<typename Op::Args> args, std::shared_ptr<const void> buffers) {
  auto plan = Plan<Op>::select(context, problem, preference);
  if (!plan.ok()) return std::move(plan).error();
  auto workspace = allocate_workspace(context, *plan);
  if (!workspace.ok()) return std::move(workspace).error();
  struct State {
    Context context;
    Plan<Op> plan;
    Tensor workspace;
    std::vector<typename Op::Args> args;
    std::shared_ptr<const void> buffers;
  };
  auto state = std::make_shared<const State>(
      State{context, *std::move(plan), *std::move(workspace), std::move(args), std::move(buffers)});
  return Subject{.kernel = state->plan.id().kernel, .run = [state](std::int64_t turn) {
                   const auto copy = static_cast<std::size_t>(turn) % state->args.size();
                   const Workspace scratch = state->workspace.template as<std::byte>();
                   return state->plan.run(state->context.stream(), scratch, state->args[copy]);
                 }};
}

}  // namespace tern::lab
