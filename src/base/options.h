// The overrides a person may set in the environment. options.cpp is the only reader of the environment.
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
  // TERN_MAX_ISA: no kernel above this level. A level of CPUs ("scalar" forbids every capability), one of GPUs, or both
  // with a comma between, for programs that use both.
  struct MaxIsa {
    std::optional<Capability> level;  // empty: scalar
  };
  std::optional<MaxIsa> max_isa;           // of CPUs
  std::optional<Capability> max_gpu;       // of GPUs
  std::vector<std::string> force_kernels;  // TERN_FORCE_KERNEL: comma list, each name binds its own op
  std::optional<DeviceId> device;          // TERN_DEVICE
  bool strict = false;                     // TERN_STRICT
  std::optional<int> threads;              // TERN_THREADS
};

inline std::string_view name(Options::MaxIsa limit) { return limit.level ? name(*limit.level) : "scalar"; }

// TERN_MAX_ISA as it is written; empty where it is not set.
std::string max_isa_text(const Options& options);

// What the environment says now. A malformed variable is an error that names it; an empty one is as one that is not
// set, which is how containers and scripts take a variable back.
Result<Options> read_options();

}  // namespace tern
