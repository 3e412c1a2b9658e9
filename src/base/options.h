// The overrides that a user may set in the environment. options.cpp is the only reader of the environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tern/device.h"
#include "tern/status.h"
#include "tern/types.h"

namespace tern {

struct Options {
  // TERN_MAX_ISA: no kernel above this level runs. One CPU level ("scalar" forbids every capability), one GPU level, or
  // both separated by a comma, for programs that use both.
  struct MaxIsa {
    std::optional<Capability> level;  // empty: scalar
  };
  std::optional<MaxIsa> max_isa;           // the CPU level
  std::optional<Capability> max_gpu;       // the GPU level
  std::vector<std::string> force_kernels;  // TERN_FORCE_KERNEL: comma list; each name applies to its op
  std::optional<DeviceId> device;          // TERN_DEVICE
  bool strict = false;                     // TERN_STRICT
  std::optional<int> threads;              // TERN_THREADS
};

inline std::string_view name(Options::MaxIsa limit) { return limit.level ? name(*limit.level) : "scalar"; }

// The value of TERN_MAX_ISA as text; empty if it is not set.
std::string max_isa_text(const Options& options);

// Reads the environment. A malformed variable is an error that names it. An empty variable counts as unset, because
// containers and scripts unset variables that way.
Result<Options> read_options();

}  // namespace tern
