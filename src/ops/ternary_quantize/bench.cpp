// ternary_quantize for the bench: mostly reads weights, on a GPU also from host memory.
#include <chrono>

#include "base/errors.h"
#include "lab/op_bench.h"
#include "plan/context_state.h"

namespace tern::lab {
namespace {

// Times quantize() of a host tensor, with the copies both ways and the allocation of the results.
Result<OpCase> from_host_case(const BenchRequest& request, const Context& context, const ProblemWords& words) {
  const auto problem = OpTraits<TernaryQuantize>::problem(words);
  if (context.device().id.kind != DeviceKind::cuda)
    return error(Code::invalid_argument, "BenchRequest::from_host", "BenchRequest::from_host is for a GPU, this is {}",
                 name(context.device().id));
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
  op_case.problem = find_op("ternary_quantize")->json(words);
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

template <>
BenchFacts<TernaryQuantize> bench_facts() {
  return {.limit = Limit::streaming_read, .from_host = from_host_case};
}

}  // namespace tern::lab
