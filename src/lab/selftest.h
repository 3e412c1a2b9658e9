// Every kernel this machine can run against the reference, on random and worst-case problems.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tern/context.h"
#include "tern/status.h"

namespace tern::lab {

struct SelftestResult {
  std::string op;
  std::string kernel;
  std::int64_t problems = 0;  // how many were compared
  std::string skipped;        // why this machine cannot run the kernel; empty when it ran
  std::string difference;     // problem and element of the first difference; empty when equal
};

// Called after each kernel.
using SelftestProgress = std::function<void(const SelftestResult&)>;

// All ops when `op` is empty; an unknown op is an error that lists the known ones.
Result<std::vector<SelftestResult>> selftest(const Context& context, const std::string& op,
                                             const SelftestProgress& progress = {});

}  // namespace tern::lab
