// Chooses a kernel: a pure function of the list, the problem, the machine, the overrides and the preference.
#pragma once

#include <optional>
#include <span>

#include "base/options.h"
#include "ops/kernel.h"
#include "tern/plan.h"

namespace tern {

// What selection knows of a device.
struct Machine {
  DeviceId device;
  Capabilities capabilities;  // all of them; select_kernel() applies the overrides
  CpuModel cpu = {};
};

struct Selection {
  const Kernel* kernel = nullptr;  // null when every kernel refused
  std::optional<Tuning> tuning;    // only for CPU kernels that can be tuned
  Explanation explanation;
};

// Fails only when an override or a strict preference cannot be met. Otherwise, a problem that no kernel accepts gives a
// Selection with a null kernel and an explanation.
Result<Selection> select_kernel(std::span<const Kernel> list, const ProblemFacts& problem, const Machine& machine,
                                const Options& options, const Preference& preference);

// Refuses a name in TERN_FORCE_KERNEL that no kernel has.
Status check_forced_names(std::span<const Kernel> list, const Options& options);

// What a kernel guarantees for a problem: the problem's guarantee if it has one, else the kernel's. The kernel also
// fills in an accumulator that the problem leaves empty.
Guarantee guarantee_of(const ProblemFacts& problem, const KernelInfo& kernel);

// Why a kernel cannot run on a machine, whatever the problem; nothing when it can.
std::optional<std::string> refused_by_machine(const Kernel& kernel, const Machine& machine, const Options& options);

}  // namespace tern
