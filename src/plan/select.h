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
  Capabilities capabilities;  // in full; overrides are applied by selection
  CpuModel cpu = {};
};

struct Selection {
  const Kernel* kernel = nullptr;  // null when every kernel refused
  std::optional<Tuning> tuning;    // of a CPU's kernel that has the choice
  Explanation explanation;
};

// Fails only when an override or a strict preference cannot be met. Without either, a problem that no kernel takes
// gives a Selection without a kernel, which explains itself.
Result<Selection> select_kernel(std::span<const Kernel> list, const ProblemFacts& problem, const Machine& machine,
                                const Options& options, const Preference& preference);

// What a kernel promises of a problem: what the problem says, the rest and an accumulator it leaves open by the kernel.
Guarantee guarantee_of(const ProblemFacts& problem, const KernelInfo& kernel);

// Why a kernel cannot run on a machine, whatever the problem; nothing when it can.
std::optional<std::string> refused_by_machine(const Kernel& kernel, const Machine& machine, const Options& options);

}  // namespace tern
