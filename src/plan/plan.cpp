// Plan<Op>: one implementation for every op, based on its OpTraits.
#include "tern/plan.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/errors.h"
#include "base/fp_env.h"
#include "base/options.h"
#include "base/words.h"
#include "device/isa.h"
#include "memory/workspace.h"
#include "ops/ops.h"
#include "plan/context_state.h"
#include "plan/plan_rows.h"
#include "plan/select.h"

namespace tern {
namespace {

Machine machine_of(const detail::ContextState& context) {
  return {.device = context.device.id, .capabilities = context.device.capabilities, .cpu = context.device.cpu};
}

template <class Op>
Result<Selection> decide(const Context& context, const typename Op::Problem& problem, const Preference& preference) {
  TERN_ASSIGN(facts, OpTraits<Op>::facts(problem));
  TERN_ASSIGN(options, read_options());
  if (!context.state().overrides) {
    options.device.reset();
    options.force_kernels.clear();
    options.max_gpu.reset();  // a context without overrides is on a CPU
  }
  return select_kernel(kernel_list(), facts, machine_of(context.state()), options, preference);
}

constexpr std::array kElementTypes = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8};

// If only the element type is wrong, the error lists the types that the op takes. Otherwise it gives the reason of
// every kernel, except those for another format.
Error nobody_accepts(const ProblemFacts& facts, const Explanation& why) {
  std::vector<std::string_view> taken;
  for (const DType type : kElementTypes)
    if (std::ranges::any_of(kernel_list(), [&](const Kernel& kernel) {
          return kernel.info.op == facts.op && kernel.info.format == facts.format && kernel.info.dtypes.has(type);
        }))
      taken.push_back(name(type));
  if (!taken.empty() && std::ranges::find(taken, name(facts.dtype)) == taken.end())
    return error(Code::unsupported, facts.op, "{} takes {}, not {}", facts.op, listed(taken), name(facts.dtype));
  std::string reasons;
  for (const Rejection& r : why.rejections)
    if (!r.reason.starts_with("is for ")) reasons += fmt::format("; {} {}", r.kernel, r.reason);
  return error(Code::unsupported, facts.op, "no kernel accepts this problem{}", reasons);
}

constexpr int kMostAhead = 1 << 20;  // bytes

constexpr std::string_view kTuning = "Preference::tuning";

Status check_tuning(DeviceId device, const Tuning& tuning) {
  const bool of_cpu = tuning.streams != 0 || tuning.ahead_bytes;
  Tuning of_gpu = tuning;
  of_gpu.streams = 0;
  of_gpu.ahead_bytes = {};
  if (device.kind == DeviceKind::cpu && of_gpu != Tuning{})
    return error(
        Code::invalid_argument, kTuning,
        "a tuning of {} is for kernels of a GPU, the context is on {}; leave it out, or give streams and ahead",
        name(of_gpu), name(device));
  if (device.kind != DeviceKind::cpu && of_cpu)
    return error(Code::invalid_argument, kTuning,
                 "streams and ahead of a tuning are for kernels of a CPU, the context is on {}; leave them out",
                 name(device));
  if (tuning.threads < 0 || tuning.threads > 1024 || tuning.threads % 32 != 0)
    return error(Code::invalid_argument, kTuning, "a tuning of {} threads a block; give a multiple of 32 up to 1024",
                 tuning.threads);
  if (tuning.split < 0)
    return error(Code::invalid_argument, kTuning,
                 "k cannot be split into {} parts; give 1 or more, or 0 for the kernel's own choice", tuning.split);
  if (tuning.streams < 0 || tuning.streams > 4 || tuning.streams == 3)
    return error(Code::invalid_argument, kTuning,
                 "a tuning of {} streams; give 1, 2 or 4, or 0 for what suits the processor", tuning.streams);
  if (tuning.ahead_bytes && (*tuning.ahead_bytes < 0 || *tuning.ahead_bytes > kMostAhead))
    return error(Code::invalid_argument, kTuning, "a tuning of {} bytes ahead; give 0 to {}", *tuning.ahead_bytes,
                 kMostAhead);
  return {};
}

}  // namespace

template <class Op>
struct Plan<Op>::Impl {
  std::shared_ptr<const detail::ContextState> context;
  Problem problem;
  const Kernel* kernel = nullptr;
  std::size_t workspace_bytes = 0;
  std::int64_t k = 0;
  PlanId id;
  std::string id_text, device;
  Tuning tuning;                   // as requested
  std::optional<Tuning> resolved;  // what the kernel uses, if it reports it
  Explanation explanation;

  Status check_run(Stream stream, Workspace workspace, std::size_t needed_bytes) const {
    if (detail::ContextState::owner(stream) != context.get())
      return error(Code::invalid_argument, id.op, "the stream is not one of the plan's context");
    if (workspace.size() < needed_bytes)
      return error(Code::invalid_argument, id.op, "the workspace has {} bytes, {} are needed", workspace.size(),
                   needed_bytes);
    if (needed_bytes > 0 && reinterpret_cast<std::uintptr_t>(workspace.data()) % kWorkspaceAlignment != 0)
      return error(Code::invalid_argument, id.op, "the workspace is not aligned to {} bytes", kWorkspaceAlignment);
    return {};
  }
  using Params = typename OpTraits<Op>::Params;

  // Runs the kernel between the observers' run_started() and run_finished(). `self` is this, so that a GPU's run can
  // report its time after the plan has gone.
  static Status watched(const std::shared_ptr<const Impl>& self, Stream stream, const Threads& threads,
                        Workspace workspace, const Params& params) {
    const detail::ContextState& state = *self->context;
    RunEvent event{.kernel = self->id.kernel, .device = self->device, .threads = threads.count()};
    if (!state.observers.empty()) {
      const Work work = work_of<Op>(params);
      event.plan = self->id_text;
      event.stream = detail::ContextState::lane(stream);
      event.bytes = work.bytes;
      event.operations = work.operations;
    }
    for (const auto& observer : state.observers) observer->run_started(event);
    const auto begin = state.profiling ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
    Status status = state.gpu ? launch(self, event, detail::ContextState::lane(stream), workspace, params)
                              : self->compute(threads, workspace, params);
    if (state.profiling && !state.gpu)
      event.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    self->report(event, status);
    return status;
  }
  // Reports the end of a run and, on a CPU with profiling, its time.
  void report(RunEvent& event, const Status& status) const {
    const std::optional<double> milliseconds = std::exchange(event.milliseconds, std::nullopt);
    for (const auto& observer : context->observers) observer->run_finished(event, status);
    if (!milliseconds) return;
    {
      const std::scoped_lock lock(context->times_mutex);
      KernelTime& time = context->times[id.kernel];
      time.kernel = id.kernel;
      ++time.runs;
      time.milliseconds += *milliseconds;
    }
    event.milliseconds = milliseconds;
    if (status.ok())
      for (const auto& observer : context->observers) observer->run_timed(event);
  }

  Status compute(const Threads& threads, Workspace workspace, const Params& params) const {
    const KernelEntry& entry = kernel->entry;
    return entry.run(entry.table, &params, {threads, workspace, nullptr, resolved ? &*resolved : nullptr});
  }
  static Status launch(const std::shared_ptr<const Impl>& self, const RunEvent& event, int lane, Workspace workspace,
                       const Params& params) {
    const detail::ContextState& state = *self->context;
    TERN_ON_GPU(state.gpu->index());
    TERN_ASSIGN(run, state.gpu->start(lane, OpTraits<Op>::kName, self->k));
    run.launch.tuning = &self->tuning;
    const KernelEntry& entry = self->kernel->entry;
    if (Status status = entry.run(entry.table, &params, {state.threads, workspace, &run.launch}); !status.ok())
      return cuda::launch_failed(self->id.kernel, std::move(status).error());
    return state.gpu->finish(run, event, self);
  }
};

template <class Op>
Result<Plan<Op>> Plan<Op>::select(const Context& context, const Problem& problem, const Preference& preference) {
  TERN_ASSIGN(selection, decide<Op>(context, problem, preference));
  TERN_ASSIGN(facts, OpTraits<Op>::facts(problem));
  if (selection.kernel == nullptr) return nobody_accepts(facts, selection.explanation);
  const detail::ContextState& state = context.state();
  const KernelInfo& info = selection.kernel->info;
  const KernelEntry& entry = selection.kernel->entry;
  auto impl = std::make_shared<Impl>();
  impl->context = context.state_;
  impl->problem = problem;
  impl->kernel = selection.kernel;
  impl->workspace_bytes = entry.workspace_bytes(entry.table, &problem, state.threads.count());
  impl->id = {.op = std::string(facts.op),
              .kernel = std::string(info.name),
              .element = std::string(name(facts.dtype)),
              .aux_element = std::string(name(facts.aux)),
              .layout = std::string(name(facts.format)),
              .epilogue = facts.epilogue,
              .arch = std::string(info.isa),
              .backend = info.device == DeviceKind::cpu ? "cpu" : "cuda",
              .guarantee = guarantee_of(facts, info)};
  impl->id_text = impl->id.str();
  impl->k = facts.k;
  impl->device = name(state.device.id);
  TERN_RETURN_IF_ERROR(check_tuning(state.device.id, preference.tuning));
  impl->tuning = preference.tuning;
  impl->resolved = selection.tuning;
  if (state.gpu && entry.tuning != nullptr) {
    TERN_ON_GPU(state.gpu->index());
    cuda::Launch launch;
    launch.multiprocessors = state.device.gpu->multiprocessors;
    launch.device = state.gpu->index();
    launch.tuning = &impl->tuning;
    impl->resolved = entry.tuning(entry.table, &problem, launch);
  }
  impl->explanation = std::move(selection.explanation);
  if (impl->tuning != Tuning{})
    impl->explanation.notes.push_back(fmt::format("tuning asked for: {}{}", name(impl->tuning),
                                                  impl->resolved ? "" : "; the kernel does not report what it uses"));
  if (!state.observers.empty()) {
    std::string note = impl->explanation.chosen_because;
    for (const std::string& n : impl->explanation.notes) note += "; " + n;
    for (const auto& observer : state.observers) observer->plan_selected(info.name, note);
  }
  return Plan(std::move(impl));
}

template <class Op>
Result<Explanation> Plan<Op>::explain(const Context& context, const Problem& problem, const Preference& preference) {
  TERN_ASSIGN(selection, decide<Op>(context, problem, preference));
  return std::move(selection.explanation);
}

template <class Op>
Status Plan<Op>::can_implement(const Args& args) const {
  auto params = OpTraits<Op>::bind(impl_->problem, args, impl_->context->device.id);
  return params.ok() ? Status() : Status(std::move(params).error());
}

template <class Op>
std::size_t Plan<Op>::workspace_bytes() const {
  return impl_->workspace_bytes;
}

template <class Op>
Status Plan<Op>::run(Stream stream, Workspace workspace, const Args& args) const {
  const detail::ContextState& state = *impl_->context;
  TERN_RETURN_IF_ERROR(impl_->check_run(stream, workspace, impl_->workspace_bytes));
  const FpEnvGuard modes;
  TERN_ASSIGN(params, OpTraits<Op>::bind(impl_->problem, args, state.device.id));
  if (OpTraits<Op>::empty(params)) return {};
  return Impl::watched(impl_, stream, state.threads, workspace, params);
}

template <class Op>
const Kernel* Plan<Op>::kernel() const {
  return impl_->kernel;
}

template <class Op>
std::size_t detail::PlanRows<Op>::workspace_bytes(const Plan<Op>& plan) {
  const KernelEntry& entry = plan.impl_->kernel->entry;
  return entry.workspace_bytes(entry.table, &plan.impl_->problem, 1);
}

template <class Op>
Status detail::PlanRows<Op>::run(const Plan<Op>& plan, Stream stream, Workspace workspace, RowRange rows,
                                 const typename Op::Args& args) {
  const auto& impl = *plan.impl_;
  TERN_RETURN_IF_ERROR(impl.check_run(stream, workspace, workspace_bytes(plan)));
  const FpEnvGuard modes;
  TERN_ASSIGN(params, OpTraits<Op>::bind_rows(impl.problem, rows, args));
  if (OpTraits<Op>::empty(params)) return {};
  static const Threads alone(1);
  return std::remove_cvref_t<decltype(impl)>::watched(plan.impl_, stream, alone, workspace, params);
}

template <class Op>
Status detail::PlanRows<Op>::run_scale(const Plan<Op>& plan, Stream stream, Workspace workspace,
                                       const typename Op::Args& args) {
  const auto& impl = *plan.impl_;
  TERN_RETURN_IF_ERROR(impl.check_run(stream, workspace, impl.workspace_bytes));
  const FpEnvGuard modes;
  TERN_ASSIGN(params, OpTraits<Op>::bind_scale(impl.problem, args));
  if (OpTraits<Op>::empty(params)) return {};
  return std::remove_cvref_t<decltype(impl)>::watched(plan.impl_, stream, impl.context->threads, workspace, params);
}

template <class Op>
auto Plan<Op>::problem() const -> const Problem& {
  return impl_->problem;
}
template <class Op>
const PlanId& Plan<Op>::id() const {
  return impl_->id;
}
template <class Op>
const Guarantee& Plan<Op>::guarantee() const {
  return impl_->id.guarantee;
}
template <class Op>
const Explanation& Plan<Op>::explain() const {
  return impl_->explanation;
}

template <class Op>
const std::optional<Tuning>& Plan<Op>::tuning() const {
  return impl_->resolved;
}

std::string PlanId::str() const {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|math={},acc={}{}{}", op, kernel, element, aux_element, layout, epilogue,
                     arch, backend, guarantee.math, guarantee.accumulator, guarantee.deterministic ? ",det" : "",
                     guarantee.bit_stable ? ",bitstable" : "");
}

Result<std::vector<KernelDescription>> kernels(const Context& context) {
  TERN_ASSIGN(options, read_options());
  const Machine machine = machine_of(context.state());
  TERN_RETURN_IF_ERROR(limit_capabilities(machine.capabilities, machine.device.kind, options));
  std::vector<KernelDescription> list;
  for (const Kernel& kernel : kernel_list()) {
    KernelDescription d{.name = std::string(kernel.info.name),
                        .op = std::string(kernel.info.op),
                        .format = std::string(name(kernel.info.format)),
                        .in_build = kernel.entry.table != nullptr};
    for (int i = 0; i < kCapabilityCount; ++i)
      if (const auto c = static_cast<Capability>(i); kernel.info.needs.has(c)) d.needs.emplace_back(name(c));
    for (const DType t : kElementTypes)
      if (kernel.info.dtypes.has(t)) d.dtypes.emplace_back(name(t));
    for (const Scheme s : {Scheme::absmean, Scheme::absmax, Scheme::mse, Scheme::int2})
      if (kernel.info.schemes.has(s)) d.schemes.emplace_back(name(s));
    d.refused = refused_by_machine(kernel, machine, options).value_or("");
    list.push_back(std::move(d));
  }
  return list;
}

#define OP(name, Op) template class Plan<Op>;
TERN_OPS(OP)
#undef OP

template struct detail::PlanRows<TernaryQuantize>;

}  // namespace tern
