// What the entry points of plans share: templates, and eight functions per op that name its types.
#pragma once

#include <array>

#include "api/c_handles.h"

namespace tern::c {

// What a plan says of itself, as a C struct with the storage that it points to.
struct PlanFace : Pinned {
  PlanFace(PlanId of, const Guarantee& promised, const std::optional<Tuning>& tuned);

  PlanId id;
  Guarantee guarantee;
  std::string text, math, accumulator;
  bool has_tuning;
  tern_tuning tuning;
  tern_plan_info info;
};

template <class Op>
struct PlanHandle {
  explicit PlanHandle(Plan<Op> from) : plan(std::move(from)), face(plan.id(), plan.guarantee(), plan.tuning()) {}

  Plan<Op> plan;
  PlanFace face;
};

// Linear::Args together with the outputs that its span refers to. The Args are valid as long as this object lives.
struct LinearArgs {
  ConstTensorView x;
  ConstTensorView x_scales;
  std::array<Linear::Output, Linear::kMaxMatrices> outputs;
  std::size_t count = 0;
  // NOLINTNEXTLINE(google-explicit-constructor): used where other ops have plain Args
  operator Linear::Args() const { return {.x = x, .x_scales = x_scales, .outputs = std::span(outputs).first(count)}; }
};
Result<std::vector<Linear::Matrix>> to_matrices(const char* where, const tern_linear_matrix* given, std::size_t count);
Result<LinearArgs> to_cpp(const char* where, const tern_linear_args* args);

std::string text_of(const Explanation& explanation);

template <class Op, class CPlan, class CProblem>
Status select_plan(const char* where, const tern_context* context, const CProblem* problem,
                   const tern_preference* preference, CPlan** out) {
  TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}, {"problem", problem}}));
  TERN_ASSIGN(cpp_problem, to_cpp(where, problem));
  TERN_ASSIGN(cpp_preference, to_preference(where, preference));
  TERN_ASSIGN(plan, Plan<Op>::select(context->context, cpp_problem, cpp_preference));
  *out = new CPlan(std::move(plan));
  return {};
}

template <class Op, class CProblem>
Status explain_problem(const char* where, const tern_context* context, const CProblem* problem,
                       const tern_preference* preference, char* buffer, std::size_t buffer_bytes, std::size_t* length) {
  TERN_RETURN_IF_ERROR(not_null(where, {{"context", context}, {"problem", problem}, {"length", length}}));
  TERN_ASSIGN(cpp_problem, to_cpp(where, problem));
  TERN_ASSIGN(cpp_preference, to_preference(where, preference));
  TERN_ASSIGN(explanation, Plan<Op>::explain(context->context, cpp_problem, cpp_preference));
  return write_text(where, text_of(explanation), buffer, buffer_bytes, length);
}

template <class CPlan, class CArgs>
Status check_args(const char* where, const CPlan* plan, const CArgs* args) {
  TERN_RETURN_IF_ERROR(not_null(where, {{"plan", plan}, {"args", args}}));
  TERN_ASSIGN(cpp_args, to_cpp(where, args));
  return plan->plan.can_implement(cpp_args);
}

template <class CPlan, class CArgs>
Status run_plan(const char* where, const CPlan* plan, const tern_stream* stream, void* workspace,
                std::size_t workspace_bytes, const CArgs* args) {
  TERN_RETURN_IF_ERROR(not_null(where, {{"plan", plan}, {"stream", stream}, {"args", args}}));
  if (workspace == nullptr && workspace_bytes != 0)
    return error(Code::invalid_argument, where, "workspace is NULL but workspace_bytes is {}", workspace_bytes);
  TERN_ASSIGN(cpp_args, to_cpp(where, args));
  const ParallelForWatch watch;
  TERN_RETURN_IF_ERROR(plan->plan.run(stream->stream, {static_cast<std::byte*>(workspace), workspace_bytes}, cpp_args));
  return watch.status(where);
}

}  // namespace tern::c

#define TERN_DEFINE_PLAN(op, Op)                                                                                    \
  struct tern_##op##_plan : tern::c::PlanHandle<tern::Op> {                                                         \
    using PlanHandle::PlanHandle;                                                                                   \
  };                                                                                                                \
  tern_status tern_##op##_select(const tern_context* context, const tern_##op##_problem* problem,                   \
                                 const tern_preference* preference, tern_##op##_plan** out) {                       \
    return tern::c::guarded("tern_" #op "_select", [&](const char* where) -> tern::Status {                         \
      return tern::c::select_plan<tern::Op>(where, context, problem, preference, out);                              \
    });                                                                                                             \
  }                                                                                                                 \
  tern_status tern_##op##_explain(const tern_context* context, const tern_##op##_problem* problem,                  \
                                  const tern_preference* preference, char* buffer, size_t buffer_bytes,             \
                                  size_t* length) {                                                                 \
    return tern::c::guarded("tern_" #op "_explain", [&](const char* where) -> tern::Status {                        \
      return tern::c::explain_problem<tern::Op>(where, context, problem, preference, buffer, buffer_bytes, length); \
    });                                                                                                             \
  }                                                                                                                 \
  tern_status tern_##op##_plan_explain(const tern_##op##_plan* plan, char* buffer, size_t buffer_bytes,             \
                                       size_t* length) {                                                            \
    return tern::c::guarded("tern_" #op "_plan_explain", [&](const char* where) -> tern::Status {                   \
      TERN_RETURN_IF_ERROR(tern::c::not_null(where, {{"plan", plan}}));                                             \
      return tern::c::write_text(where, tern::c::text_of(plan->plan.explain()), buffer, buffer_bytes, length);      \
    });                                                                                                             \
  }                                                                                                                 \
  tern_status tern_##op##_plan_can_implement(const tern_##op##_plan* plan, const tern_##op##_args* args) {          \
    return tern::c::guarded("tern_" #op "_plan_can_implement", [&](const char* where) -> tern::Status {             \
      return tern::c::check_args(where, plan, args);                                                                \
    });                                                                                                             \
  }                                                                                                                 \
  tern_status tern_##op##_plan_workspace_bytes(const tern_##op##_plan* plan, size_t* out) {                         \
    return tern::c::guarded("tern_" #op "_plan_workspace_bytes", [&](const char* where) -> tern::Status {           \
      TERN_RETURN_IF_ERROR(tern::c::not_null(where, {{"plan", plan}, {"out", out}}));                               \
      *out = plan->plan.workspace_bytes();                                                                          \
      return {};                                                                                                    \
    });                                                                                                             \
  }                                                                                                                 \
  tern_status tern_##op##_plan_run(const tern_##op##_plan* plan, const tern_stream* stream, void* workspace,        \
                                   size_t workspace_bytes, const tern_##op##_args* args) {                          \
    return tern::c::guarded("tern_" #op "_plan_run", [&](const char* where) -> tern::Status {                       \
      return tern::c::run_plan(where, plan, stream, workspace, workspace_bytes, args);                              \
    });                                                                                                             \
  }                                                                                                                 \
  tern_status tern_##op##_plan_get_info(const tern_##op##_plan* plan, const tern_plan_info** out) {                 \
    return tern::c::guarded("tern_" #op "_plan_get_info", [&](const char* where) -> tern::Status {                  \
      TERN_RETURN_IF_ERROR(tern::c::cleared(where, out, {{"plan", plan}}));                                         \
      *out = &plan->face.info;                                                                                      \
      return {};                                                                                                    \
    });                                                                                                             \
  }                                                                                                                 \
  void tern_##op##_plan_destroy(tern_##op##_plan* plan) { delete plan; }                                            \
  static_assert(true)  // so that a semicolon ends the use
