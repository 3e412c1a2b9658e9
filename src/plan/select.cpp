// Selection and the reasons it gives.
#include "plan/select.h"

#include <algorithm>

#include "base/errors.h"
#include "device/isa.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "select";

std::string_view family(DeviceKind kind) { return kind == DeviceKind::cpu ? "a CPU" : "a CUDA device"; }

const IsaFacts* facts_of(const ProblemFacts& problem, std::string_view isa) {
  const auto found = std::ranges::find(problem.of_isas, isa, &IsaFacts::isa);
  return found == problem.of_isas.end() ? nullptr : &*found;
}

std::optional<std::string> refused_by_problem(const KernelInfo& kernel, const ProblemFacts& problem) {
  if (kernel.format != problem.format)
    return fmt::format("is for {}, the problem is {}", name(kernel.format), name(problem.format));
  if (!problem.refused.empty()) return problem.refused;
  if (kernel.device == DeviceKind::cuda && !problem.refused_on_gpu.empty()) return problem.refused_on_gpu;
  if (const IsaFacts* facts = facts_of(problem, kernel.isa); facts != nullptr && !facts->refused.empty())
    return facts->refused;
  if (!kernel.dtypes.has(problem.dtype)) return fmt::format("does not take {}", name(problem.dtype));
  if (!kernel.schemes.empty() && !kernel.schemes.has(problem.scheme))
    return fmt::format("does not know scheme {}", name(problem.scheme));
  if (problem.m < kernel.m_min) return fmt::format("m is {}, below its {}", problem.m, kernel.m_min);
  if (problem.m > kernel.m_max) return fmt::format("m is {}, above its {}", problem.m, kernel.m_max);
  if (problem.k % kernel.k_multiple != 0)
    return fmt::format("k is {}, not a multiple of {}", problem.k, kernel.k_multiple);
  return std::nullopt;
}

// The machine's capabilities under TERN_MAX_ISA.
Result<Capabilities> allowed(const Machine& machine, const Options& options) {
  return limit_capabilities(machine.capabilities, machine.device.kind, options);
}

std::optional<std::string> refused_by_capabilities(const Kernel& kernel, const Machine& machine,
                                                   Capabilities permitted) {
  if (kernel.info.device != machine.device.kind)
    return fmt::format("needs {}, this is {}", family(kernel.info.device), family(machine.device.kind));
  for (int i = 0; i < kCapabilityCount; ++i) {
    const auto c = static_cast<Capability>(i);
    if (!kernel.info.needs.has(c) || permitted.has(c)) continue;
    if (machine.capabilities.has(c)) return fmt::format("needs {}, above TERN_MAX_ISA", name(c));
    return fmt::format("needs {}, which this machine does not have", name(c));
  }
  if (kernel.entry.table == nullptr) return "is not in this build";
  return std::nullopt;
}

const Kernel* find(std::span<const Kernel> list, std::string_view name) {
  const auto found = std::ranges::find(list, name, [](const Kernel& k) { return k.info.name; });
  return found == list.end() ? nullptr : &*found;
}

// Every name in TERN_FORCE_KERNEL must exist. If any of them is a kernel of this op, one of those must accept the
// problem.
Result<const Kernel*> forced_kernel(std::span<const Kernel> list, const ProblemFacts& problem, const Options& options,
                                    const std::vector<Rejection>& rejections) {
  TERN_RETURN_IF_ERROR(check_forced_names(list, options));
  const Kernel* chosen = nullptr;
  std::string refusals;
  for (const std::string& wanted : options.force_kernels) {
    const Kernel* kernel = find(list, wanted);
    if (kernel->info.op != problem.op || chosen != nullptr) continue;
    const auto refusal = std::ranges::find(rejections, wanted, &Rejection::kernel);
    if (refusal == rejections.end())
      chosen = kernel;
    else
      refusals += fmt::format("{}{} {}", refusals.empty() ? "" : "; ", wanted, refusal->reason);
  }
  if (chosen == nullptr && !refusals.empty()) return error(Code::unsupported, "TERN_FORCE_KERNEL", "{}", refusals);
  return chosen;
}

}  // namespace

Guarantee guarantee_of(const ProblemFacts& problem, const KernelInfo& kernel) {
  Guarantee guarantee = problem.guarantee.value_or(kernel.guarantee);
  if (kernel.device == DeviceKind::cuda) guarantee = problem.guarantee_on_gpu.value_or(guarantee);
  if (guarantee.accumulator.empty()) guarantee.accumulator = kernel.guarantee.accumulator;
  return guarantee;
}

std::optional<std::string> refused_by_machine(const Kernel& kernel, const Machine& machine, const Options& options) {
  auto permitted = allowed(machine, options);
  if (!permitted.ok()) return permitted.error().message;
  return refused_by_capabilities(kernel, machine, *permitted);
}

Status check_forced_names(std::span<const Kernel> list, const Options& options) {
  for (const std::string& wanted : options.force_kernels)
    if (find(list, wanted) == nullptr)
      return error(Code::invalid_argument, "TERN_FORCE_KERNEL", "there is no kernel '{}'; `tern kernels` lists them",
                   escaped(wanted, 100));
  return {};
}

Result<Selection> select_kernel(std::span<const Kernel> list, const ProblemFacts& problem, const Machine& machine,
                                const Options& options, const Preference& preference) {
  if (options.device && *options.device != machine.device)
    return error(Code::invalid_argument, "TERN_DEVICE",
                 "{} is set, but this context is on {}; unset it, or open the context on that device",
                 name(*options.device), name(machine.device));
  TERN_ASSIGN(permitted, allowed(machine, options));

  Selection selection;
  Explanation& why = selection.explanation;
  std::vector<const Kernel*> willing;
  for (const Kernel& kernel : list) {
    if (kernel.info.op != problem.op) continue;
    auto reason = refused_by_problem(kernel.info, problem);
    if (!reason) reason = refused_by_capabilities(kernel, machine, permitted);
    if (reason)
      why.rejections.push_back({std::string(kernel.info.name), *reason});
    else
      willing.push_back(&kernel);
  }
  if (const std::string limit = max_isa_text(options); !limit.empty())
    why.notes.push_back(fmt::format("TERN_MAX_ISA={}", limit));
  if (!willing.empty()) {
    selection.kernel = willing.front();
    why.chosen_because = "first in the list that takes the problem";
  }

  TERN_ASSIGN(forced, forced_kernel(list, problem, options, why.rejections));
  if (forced != nullptr) {
    selection.kernel = forced;
    why.chosen_because = "TERN_FORCE_KERNEL";
  } else if (!preference.kernel.empty()) {
    const Kernel* wanted = find(list, preference.kernel);
    if (wanted == nullptr || wanted->info.op != problem.op)
      return error(Code::invalid_argument, "Preference::kernel", "{} has no kernel '{}'; `tern kernels` lists them",
                   problem.op, escaped(preference.kernel, 100));
    if (std::ranges::find(willing, wanted) != willing.end()) {
      selection.kernel = wanted;
      why.chosen_because = "asked for by the caller";
    } else {
      const std::string& reason = std::ranges::find(why.rejections, preference.kernel, &Rejection::kernel)->reason;
      if (preference.strict || options.strict)
        return error(Code::unsupported, kWhere, "{} {}", preference.kernel, reason);
      why.notes.push_back(fmt::format("preferred {} {}; fell back", preference.kernel, reason));
    }
  }
  if (selection.kernel != nullptr) {
    why.chosen = selection.kernel->info.name;
    const KernelEntry& entry = selection.kernel->entry;
    if (entry.cpu_tuning != nullptr) selection.tuning = entry.cpu_tuning(entry.table, machine.cpu, preference.tuning);
    const IsaFacts* facts = facts_of(problem, selection.kernel->info.isa);
    if (facts != nullptr && !facts->note.empty()) why.notes.push_back(facts->note);
  }
  for (const Kernel* kernel : willing)
    if (kernel != selection.kernel)
      why.rejections.push_back({std::string(kernel->info.name), fmt::format("could do it; {} was chosen", why.chosen)});
  return selection;
}

}  // namespace tern
