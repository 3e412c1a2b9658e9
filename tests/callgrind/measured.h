// measured(), whose instructions callgrind counts, and the sizes of all cases.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/tern.h"

namespace tern::callgrind {

inline constexpr std::int64_t kRows = 48;
inline constexpr std::int64_t kColumns = 1030;  // no multiple of a vector, so that tails are counted too
inline constexpr int kRepetitions = 4;

// callgrind finds this function by its name and counts only the instructions in it.
template <class Op>
[[gnu::noinline]] Status measured(const Plan<Op>& plan, Stream stream, Workspace workspace,
                                  const typename Op::Args& args) {
  for (int i = 0; i < kRepetitions; ++i)
    if (auto status = plan.run(stream, workspace, args); !status.ok()) return status;
  return {};
}

template <class Op>
Status run(const Context& context, const typename Op::Problem& problem, const std::string& kernel,
           const typename Op::Args& args) {
  const auto plan = Plan<Op>::select(context, problem, {.kernel = kernel, .strict = true});
  if (!plan.ok()) return plan.error();
  auto scratch =
      Tensor::allocate(context.memory(), DType::u8, {static_cast<std::int64_t>(plan->workspace_bytes() + 1)});
  if (!scratch.ok()) return scratch.error();
  return measured<Op>(*plan, context.stream(), scratch->as<std::byte>(), args);
}

bool is_affine(const std::string& kernel);
// x is kRows x kColumns; `dtype` and `granularity` are words, as in bf16 and group:128.
Status run_affine(const Context& context, const std::string& kernel, const std::string& dtype,
                  const std::string& granularity, const std::vector<float>& x);

}  // namespace tern::callgrind
