// activation_quantize for the bench: reads tokens of f32, so its limit is the streaming read.
#include <array>

#include "base/errors.h"
#include "lab/bench_ops.h"
#include "lab/plan_subject.h"
#include "lab/random_weights.h"
#include "lab/rotation.h"
#include "plan/context_state.h"
#include "tern/linear.h"

namespace tern::lab {
namespace {

constexpr std::int64_t kDefaultTokens = 65536;
constexpr std::int64_t kDefaultK = 2560;

}  // namespace

Result<OpCase> bench_activation_quantize(const BenchRequest& request, const Context& context) {
  if (request.dtype.value_or(DType::f32) != DType::f32)
    return error(Code::unsupported, request.op, "random tokens are made in f32 only, not in {}", name(*request.dtype));
  const ActivationQuantize::Problem problem{.m = request.m.value_or(request.rows == 0 ? kDefaultTokens : request.rows),
                                            .k = request.k == 0 ? kDefaultK : request.k};
  TERN_RETURN_IF_ERROR(ActivationQuantizePlan::select(context, problem));
  const auto elems = static_cast<std::size_t>(problem.m * problem.k), tokens = static_cast<std::size_t>(problem.m);
  TERN_ASSIGN(made, Rotation::make(request, context, std::array{4 * elems, elems, 4 * tokens, 4 * tokens}));
  const auto rotation = std::make_shared<const Rotation>(std::move(made));
  std::vector<ActivationQuantize::Args> args;
  for (std::int64_t copy = 0; copy < rotation->copies(); ++copy) {
    auto* x = static_cast<float*>(rotation->part(0, copy));
    fill_random_weights(context.state().threads, static_cast<std::uint64_t>(copy), DType::f32, x,
                        problem.m * problem.k);
    args.push_back({.x = {x, DType::f32, {problem.m, problem.k}},
                    .q = {rotation->part(1, copy), DType::i8, {problem.m, problem.k}},
                    .scales = {rotation->part(2, copy), DType::f32, {problem.m}},
                    .sums = {rotation->part(3, copy), DType::i32, {problem.m}}});
  }
  OpCase op_case;
  op_case.problem = {{"rows", problem.m}, {"cols", problem.k}, {"dtype", "f32"}, {"scheme", "token_i8"}};
  op_case.bytes = static_cast<std::int64_t>(5 * elems + 8 * tokens);
  op_case.limit = Limit::streaming_read;
  if (!rotation->note().empty()) op_case.notes.push_back(rotation->note());
  op_case.ready = [rotation, problem, args](const Context& on, const Preference& preference) {
    return plan_subject<ActivationQuantize>(on, problem, preference, args, rotation);
  };
  return op_case;
}

}  // namespace tern::lab
