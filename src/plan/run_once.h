// Allocates a plan's workspace; runs a plan once with a temporary workspace and waits for the result.
#pragma once

#include "base/errors.h"
#include "tern/context.h"
#include "tern/plan.h"
#include "tern/tensor.h"

namespace tern {

template <class Op>
Result<Tensor> allocate_workspace(const Context& context, const Plan<Op>& plan) {
  return Tensor::allocate(context.memory(), DType::u8, {static_cast<std::int64_t>(plan.workspace_bytes())},
                          "workspace");
}

template <class Op>
Status run_once(const Context& context, const Plan<Op>& plan, const typename Op::Args& args) {
  TERN_ASSIGN(workspace, allocate_workspace(context, plan));
  TERN_RETURN_IF_ERROR(plan.run(context.stream(), workspace.template as<std::byte>(), args));
  return context.stream().synchronize();
}

}  // namespace tern
