// Runs the selftest of every op over the list of kernels.
#include "lab/selftest.h"

#include <algorithm>

#include "base/errors.h"
#include "base/options.h"
#include "base/words.h"
#include "lab/op_record.h"
#include "tern/plan.h"

namespace tern::lab {
namespace {

// An error if TERN_FORCE_KERNEL names kernels of an op and format of which none can run here.
Status check_forced(const Options& options, const std::vector<KernelDescription>& list, std::string_view op) {
  const auto find = [&](const std::string& name) { return std::ranges::find(list, name, &KernelDescription::name); };
  for (const std::string& name : options.force_kernels) {
    const auto forced = find(name);
    if (forced == list.end() || forced->refused.empty() || (!op.empty() && forced->op != op)) continue;
    if (std::ranges::none_of(options.force_kernels, [&](const std::string& other) {
          const auto kernel = find(other);
          return kernel != list.end() && kernel->op == forced->op && kernel->format == forced->format &&
                 kernel->refused.empty();
        }))
      return error(Code::unsupported, "TERN_FORCE_KERNEL", "{} {}", name, forced->refused);
  }
  return {};
}

// Why TERN_FORCE_KERNEL makes another kernel run in place of this one; empty if it does not.
std::string displaced(const Options& options, const std::vector<KernelDescription>& list,
                      const KernelDescription& kernel) {
  bool binds = false;
  for (const std::string& name : options.force_kernels) {
    const auto forced = std::ranges::find(list, name, &KernelDescription::name);
    if (forced == list.end() || forced->op != kernel.op || !forced->refused.empty()) continue;
    if (forced->format == kernel.format) return name == kernel.name ? "" : "TERN_FORCE_KERNEL names " + name;
    binds = true;
  }
  return binds ? "TERN_FORCE_KERNEL names a kernel of another format" : "";
}

}  // namespace

Result<std::vector<SelftestResult>> selftest(const Context& context, const std::string& op,
                                             const SelftestProgress& progress) {
  if (!op.empty() && find_op(op) == nullptr)
    return error(Code::invalid_argument, "selftest", "'{}' is not one of {}", op, listed(op_names()));
  TERN_ASSIGN(list, kernels(context));
  TERN_ASSIGN(options, read_options());
  TERN_RETURN_IF_ERROR(check_forced(options, list, op));
  std::vector<SelftestResult> results;
  for (const KernelDescription& kernel : list) {
    if (!op.empty() && kernel.op != op) continue;
    SelftestResult result{.op = kernel.op, .kernel = kernel.name, .skipped = kernel.refused};
    if (result.skipped.empty()) result.skipped = displaced(options, list, kernel);
    if (result.skipped.empty()) {
      TERN_ASSIGN(comparison, find_op(kernel.op)->selftest(context, kernel));
      if (comparison.problems == 0 && comparison.refused) return *comparison.refused;
      result.problems = comparison.problems;
      result.difference = comparison.difference;
    }
    if (progress) progress(result);
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace tern::lab
