// Runs a plan for some rows of its problem: for callers that walk through a large tensor piece by piece.
#pragma once

#include "ops/kernel.h"
#include "tern/layout.h"
#include "tern/quantize.h"

namespace tern::detail {

// For plans on a CPU. Several threads may run pieces at once, each with its own workspace. Every piece is a run: the
// observer and the profile see it, its arguments are checked, and its errors name elements of the whole tensor.
template <class Op>
struct PlanRows {
  static const Kernel& kernel(const Plan<Op>& plan) { return *plan.kernel(); }

  static std::size_t workspace_bytes(const Plan<Op>& plan);
  // `args` cover only these rows; the calling thread does all of the work. If all rows share one scale,
  // args.given_scale is the result of run_scale().
  static Status run(const Plan<Op>& plan, Stream stream, Workspace workspace, RowRange rows,
                    const typename Op::Args& args);
  // Computes the one scale that all rows share, with all threads of the context. args.codes are not written and may be
  // null. The workspace needs plan.workspace_bytes().
  static Status run_scale(const Plan<Op>& plan, Stream stream, Workspace workspace, const typename Op::Args& args);
};

extern template struct PlanRows<TernaryQuantize>;

}  // namespace tern::detail
