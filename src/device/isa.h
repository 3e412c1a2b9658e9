// From processor features to capabilities, and how the capabilities are ordered into levels.
#pragma once

#include "base/options.h"
#include "tern/device.h"
#include "tern/status.h"

namespace tern {

// What this processor and operating system can do, in full (no override applied).
Capabilities detect_cpu_capabilities();

// "x86_64" or "aarch64".
const char* cpu_architecture();

// What a GPU of this compute capability can do.
Capabilities cuda_capabilities(int major, int minor);

// `all` without the levels above the limit. A level of another family than the device's is an error.
Result<Capabilities> limit_capabilities(Capabilities all, DeviceKind kind, const Options::MaxIsa& limit);

}  // namespace tern
