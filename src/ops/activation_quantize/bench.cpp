// The bench case of activation_quantize. Its limit is the streaming read, because it mostly reads tokens.
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
  const ActivationQuantize::Problem problem{.m = request.m.value_or(request.rows == 0 ? kDefaultTokens : request.rows),
                                            .k = request.k == 0 ? kDefaultK : request.k,
                                            .dtype = request.dtype.value_or(DType::f32)};
  TERN_RETURN_IF_ERROR(check_kernels<ActivationQuantize>(request, context, problem));
  const auto elems = static_cast<std::size_t>(problem.m * problem.k), tokens = static_cast<std::size_t>(problem.m);
  TERN_ASSIGN(made, Rotation::make(request, context,
                                   std::array{size_of(problem.dtype) * elems, elems, 4 * tokens, 4 * tokens}));
  const auto rotation = std::make_shared<const Rotation>(std::move(made));
  std::vector<ActivationQuantize::Args> args;
  for (std::int64_t copy = 0; copy < rotation->copies(); ++copy) {
    const DeviceId device = rotation->device();
    TERN_RETURN_IF_ERROR(fill_random_weights(context, static_cast<std::uint64_t>(copy), problem.dtype,
                                             rotation->part(0, copy), problem.m * problem.k));
    args.push_back({.x = {rotation->part(0, copy), problem.dtype, {problem.m, problem.k}, device},
                    .q = {rotation->part(1, copy), DType::i8, {problem.m, problem.k}, device},
                    .scales = {rotation->part(2, copy), DType::f32, {problem.m}, device},
                    .sums = {rotation->part(3, copy), DType::i32, {problem.m}, device}});
  }
  OpCase op_case;
  op_case.problem = {{"rows", problem.m}, {"cols", problem.k}, {"dtype", name(problem.dtype)}, {"scheme", "token_i8"}};
  op_case.bytes = static_cast<std::int64_t>((size_of(problem.dtype) + 1) * elems + 8 * tokens);
  op_case.limit = Limit::streaming_read;
  if (!rotation->note().empty()) op_case.notes.push_back(rotation->note());
  op_case.ready = [rotation, problem, args](const Context& on, const Preference& preference) {
    return plan_subject<ActivationQuantize>(on, problem, preference, args, rotation);
  };
  return op_case;
}

}  // namespace tern::lab
