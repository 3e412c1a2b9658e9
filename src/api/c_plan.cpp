// The C ABI: plans. One set of templates, and eight entry points per op that name their types.
#include "api/c_abi.h"

namespace tern::c {
namespace {

// A plan, with the storage that its info points to.
template <class Op>
struct PlanHandle {
  explicit PlanHandle(Plan<Op> from)
      : plan(std::move(from)),
        id(plan.id().str()),
        math(plan.guarantee().math),
        accumulator(plan.guarantee().accumulator),
        tuning(from_tuning(plan.tuning().value_or(Tuning{}))),
        info{.struct_size = sizeof(tern_plan_info),
             .id = id.c_str(),
             .op = plan.id().op.c_str(),
             .kernel = plan.id().kernel.c_str(),
             .element = plan.id().element.c_str(),
             .aux_element = plan.id().aux_element.c_str(),
             .layout = plan.id().layout.c_str(),
             .epilogue = plan.id().epilogue.c_str(),
             .arch = plan.id().arch.c_str(),
             .backend = plan.id().backend.c_str(),
             .math = math.c_str(),
             .accumulator = accumulator.c_str(),
             .deterministic = plan.guarantee().deterministic ? 1 : 0,
             .bit_stable = plan.guarantee().bit_stable ? 1 : 0,
             .tuning = plan.tuning() ? &tuning : nullptr} {}
  PlanHandle(const PlanHandle&) = delete;
  PlanHandle& operator=(const PlanHandle&) = delete;

  Plan<Op> plan;
  std::string id, math, accumulator;
  tern_tuning tuning;
  tern_plan_info info;
};

// The overloads for linear and the affine ops are in other files. These declarations add them to the overloads below.
using c::to_args;
using c::to_problem;

Result<TernaryQuantize::Problem> to_problem(const char* where, const tern_ternary_quantize_problem* problem) {
  TERN_ASSIGN(given, read_struct(where, "problem", problem));
  TERN_ASSIGN(dtype, to_enum(where, "problem->dtype", given.dtype, kLastDType));
  TERN_ASSIGN(scheme, to_enum(where, "problem->scheme", given.scheme, kLastScheme));
  TERN_ASSIGN(granularity, to_granularity(where, given.granularity));
  TERN_ASSIGN(format, to_enum(where, "problem->format", given.format, kLastFormat));
  TERN_ASSIGN(non_finite, to_enum(where, "problem->non_finite", given.non_finite, kLastNonFinite));
  return TernaryQuantize::Problem{.rows = given.rows,
                                  .k = given.k,
                                  .dtype = dtype,
                                  .scheme = scheme,
                                  .granularity = granularity,
                                  .format = format,
                                  .non_finite = non_finite,
                                  .scale_given = given.scale_given != 0};
}

Result<TernaryDequantize::Problem> to_problem(const char* where, const tern_ternary_dequantize_problem* problem) {
  TERN_ASSIGN(given, read_struct(where, "problem", problem));
  TERN_ASSIGN(dtype, to_enum(where, "problem->dtype", given.dtype, kLastDType));
  TERN_ASSIGN(scheme, to_enum(where, "problem->scheme", given.scheme, kLastScheme));
  TERN_ASSIGN(granularity, to_granularity(where, given.granularity));
  TERN_ASSIGN(format, to_enum(where, "problem->format", given.format, kLastFormat));
  return TernaryDequantize::Problem{
      .rows = given.rows, .k = given.k, .dtype = dtype, .scheme = scheme, .granularity = granularity, .format = format};
}

Result<ActivationQuantize::Problem> to_problem(const char* where, const tern_activation_quantize_problem* problem) {
  TERN_ASSIGN(given, read_struct(where, "problem", problem));
  TERN_ASSIGN(dtype, to_enum(where, "problem->dtype", given.dtype, kLastDType));
  TERN_ASSIGN(non_finite, to_enum(where, "problem->non_finite", given.non_finite, kLastNonFinite));
  return ActivationQuantize::Problem{.m = given.m, .k = given.k, .dtype = dtype, .non_finite = non_finite};
}

Result<TernaryQuantize::Args> to_args(const char* where, const tern_ternary_quantize_args* args) {
  TERN_ASSIGN(given, read_struct(where, "args", args));
  TERN_ASSIGN(x, to_view(where, "x", given.x));
  TERN_ASSIGN(codes, to_view(where, "codes", given.codes));
  TERN_ASSIGN(scales, to_view(where, "scales", given.scales));
  TERN_ASSIGN(given_scale, to_view(where, "given_scale", given.given_scale));
  return TernaryQuantize::Args{.x = x, .codes = codes, .scales = scales, .given_scale = given_scale};
}

Result<TernaryDequantize::Args> to_args(const char* where, const tern_ternary_dequantize_args* args) {
  TERN_ASSIGN(given, read_struct(where, "args", args));
  TERN_ASSIGN(codes, to_view(where, "codes", given.codes));
  TERN_ASSIGN(scales, to_view(where, "scales", given.scales));
  TERN_ASSIGN(y, to_view(where, "y", given.y));
  return TernaryDequantize::Args{.codes = codes, .scales = scales, .y = y};
}

Result<ActivationQuantize::Args> to_args(const char* where, const tern_activation_quantize_args* args) {
  TERN_ASSIGN(given, read_struct(where, "args", args));
  TERN_ASSIGN(x, to_view(where, "x", given.x));
  TERN_ASSIGN(q, to_view(where, "q", given.q));
  TERN_ASSIGN(scales, to_view(where, "scales", given.scales));
  TERN_ASSIGN(sums, to_view(where, "sums", given.sums));
  return ActivationQuantize::Args{.x = x, .q = q, .scales = scales, .sums = sums};
}

std::string text_of(const Explanation& explanation) {
  std::string text = explanation.chosen.empty()
                         ? std::string("chosen: none\n")
                         : fmt::format("chosen: {} ({})\n", explanation.chosen, explanation.chosen_because);
  for (const auto& [kernel, reason] : explanation.rejections) text += fmt::format("refused: {}: {}\n", kernel, reason);
  for (const std::string& note : explanation.notes) text += fmt::format("note: {}\n", note);
  return text;
}

template <class Op, class CPlan, class CProblem>
Status select_plan(const char* where, const tern_context* context, const CProblem* problem,
                   const tern_preference* preference, CPlan** out) {
  TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}, {"problem", problem}}));
  TERN_ASSIGN(cpp_problem, to_problem(where, problem));
  TERN_ASSIGN(cpp_preference, to_preference(where, preference));
  TERN_ASSIGN(plan, Plan<Op>::select(context->context, cpp_problem, cpp_preference));
  *out = new CPlan{PlanHandle<Op>(std::move(plan))};
  return {};
}

template <class Op, class CProblem>
Status explain_problem(const char* where, const tern_context* context, const CProblem* problem,
                       const tern_preference* preference, char* buffer, std::size_t buffer_bytes, std::size_t* length) {
  TERN_RETURN_IF_ERROR(not_null(where, {{"context", context}, {"problem", problem}, {"length", length}}));
  TERN_ASSIGN(cpp_problem, to_problem(where, problem));
  TERN_ASSIGN(cpp_preference, to_preference(where, preference));
  TERN_ASSIGN(explanation, Plan<Op>::explain(context->context, cpp_problem, cpp_preference));
  return write_text(where, text_of(explanation), buffer, buffer_bytes, length);
}

template <class CPlan, class CArgs>
Status check_args(const char* where, const CPlan* plan, const CArgs* args) {
  TERN_RETURN_IF_ERROR(not_null(where, {{"plan", plan}, {"args", args}}));
  TERN_ASSIGN(cpp_args, to_args(where, args));
  return plan->handle.plan.can_implement(cpp_args);
}

template <class CPlan, class CArgs>
Status run_plan(const char* where, const CPlan* plan, const tern_stream* stream, void* workspace,
                std::size_t workspace_bytes, const CArgs* args) {
  TERN_RETURN_IF_ERROR(not_null(where, {{"plan", plan}, {"stream", stream}, {"args", args}}));
  if (workspace == nullptr && workspace_bytes != 0)
    return error(Code::invalid_argument, where, "workspace is NULL but workspace_bytes is {}", workspace_bytes);
  TERN_ASSIGN(cpp_args, to_args(where, args));
  const ParallelForWatch watch;
  TERN_RETURN_IF_ERROR(
      plan->handle.plan.run(stream->stream, {static_cast<std::byte*>(workspace), workspace_bytes}, cpp_args));
  return watch.status(where);
}

}  // namespace
}  // namespace tern::c

#define TERN_DEFINE_PLAN(op, Op)                                                                                      \
  struct tern_##op##_plan {                                                                                           \
    tern::c::PlanHandle<tern::Op> handle;                                                                             \
  };                                                                                                                  \
  tern_status tern_##op##_select(const tern_context* context, const tern_##op##_problem* problem,                     \
                                 const tern_preference* preference, tern_##op##_plan** out) {                         \
    return tern::c::guarded("tern_" #op "_select", [&](const char* where) -> tern::Status {                           \
      return tern::c::select_plan<tern::Op>(where, context, problem, preference, out);                                \
    });                                                                                                               \
  }                                                                                                                   \
  tern_status tern_##op##_explain(const tern_context* context, const tern_##op##_problem* problem,                    \
                                  const tern_preference* preference, char* buffer, size_t buffer_bytes,               \
                                  size_t* length) {                                                                   \
    return tern::c::guarded("tern_" #op "_explain", [&](const char* where) -> tern::Status {                          \
      return tern::c::explain_problem<tern::Op>(where, context, problem, preference, buffer, buffer_bytes, length);   \
    });                                                                                                               \
  }                                                                                                                   \
  tern_status tern_##op##_plan_explain(const tern_##op##_plan* plan, char* buffer, size_t buffer_bytes,               \
                                       size_t* length) {                                                              \
    return tern::c::guarded("tern_" #op "_plan_explain", [&](const char* where) -> tern::Status {                     \
      TERN_RETURN_IF_ERROR(tern::c::not_null(where, {{"plan", plan}}));                                               \
      return tern::c::write_text(where, tern::c::text_of(plan->handle.plan.explain()), buffer, buffer_bytes, length); \
    });                                                                                                               \
  }                                                                                                                   \
  tern_status tern_##op##_plan_can_implement(const tern_##op##_plan* plan, const tern_##op##_args* args) {            \
    return tern::c::guarded("tern_" #op "_plan_can_implement", [&](const char* where) -> tern::Status {               \
      return tern::c::check_args(where, plan, args);                                                                  \
    });                                                                                                               \
  }                                                                                                                   \
  tern_status tern_##op##_plan_workspace_bytes(const tern_##op##_plan* plan, size_t* out) {                           \
    return tern::c::guarded("tern_" #op "_plan_workspace_bytes", [&](const char* where) -> tern::Status {             \
      TERN_RETURN_IF_ERROR(tern::c::not_null(where, {{"plan", plan}, {"out", out}}));                                 \
      *out = plan->handle.plan.workspace_bytes();                                                                     \
      return {};                                                                                                      \
    });                                                                                                               \
  }                                                                                                                   \
  tern_status tern_##op##_plan_run(const tern_##op##_plan* plan, const tern_stream* stream, void* workspace,          \
                                   size_t workspace_bytes, const tern_##op##_args* args) {                            \
    return tern::c::guarded("tern_" #op "_plan_run", [&](const char* where) -> tern::Status {                         \
      return tern::c::run_plan(where, plan, stream, workspace, workspace_bytes, args);                                \
    });                                                                                                               \
  }                                                                                                                   \
  tern_status tern_##op##_plan_get_info(const tern_##op##_plan* plan, const tern_plan_info** out) {                   \
    return tern::c::guarded("tern_" #op "_plan_get_info", [&](const char* where) -> tern::Status {                    \
      TERN_RETURN_IF_ERROR(tern::c::cleared(where, out, {{"plan", plan}}));                                           \
      *out = &plan->handle.info;                                                                                      \
      return {};                                                                                                      \
    });                                                                                                               \
  }                                                                                                                   \
  void tern_##op##_plan_destroy(tern_##op##_plan* plan) { delete plan; }                                              \
  static_assert(true)  // so that a semicolon ends the use

TERN_DEFINE_PLAN(ternary_quantize, TernaryQuantize);
TERN_DEFINE_PLAN(ternary_dequantize, TernaryDequantize);
TERN_DEFINE_PLAN(activation_quantize, ActivationQuantize);
TERN_DEFINE_PLAN(linear, Linear);
TERN_DEFINE_PLAN(affine_quantize, AffineQuantize);
TERN_DEFINE_PLAN(affine_dequantize, AffineDequantize);
TERN_DEFINE_PLAN(fake_quantize, FakeQuantize);
TERN_DEFINE_PLAN(fake_quantize_backward, FakeQuantizeBackward);
TERN_DEFINE_PLAN(choose_qparams, ChooseQparams);
TERN_DEFINE_PLAN(dynamic_quantize, DynamicQuantize);
