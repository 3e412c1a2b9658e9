// From processor features to capabilities, and how the capabilities are ordered into levels.
#pragma once

#include "base/options.h"
#include "tern/device.h"
#include "tern/status.h"

namespace tern {

// What this processor and operating system can do, in full (no override applied).
Capabilities detect_cpu_capabilities();

// Which processor it is; empty where it does not say.
CpuModel detect_cpu_model();

// "x86_64" or "aarch64".
const char* cpu_architecture();

// What this processor can do within TERN_MAX_ISA, for loops that belong to no kernel.
Result<Capabilities> usable_instructions();

// What a GPU of this compute capability can do.
Capabilities cuda_capabilities(int major, int minor);

// `all` without the levels above TERN_MAX_ISA. A level of another processor family is an error. So is a limit that
// names only a level of the other kind of device (of GPUs for a CPU, or of CPUs for a GPU).
Result<Capabilities> limit_capabilities(Capabilities all, DeviceKind kind, const Options& options);

}  // namespace tern
