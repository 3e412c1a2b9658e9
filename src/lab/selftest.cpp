// Runs the selftest of every op over the list of kernels.
#include "lab/selftest.h"

#include <algorithm>
#include <array>

#include "base/errors.h"
#include "base/options.h"
#include "base/words.h"
#include "lab/op_selftest.h"
#include "tern/plan.h"

namespace tern::lab {
namespace {

struct OpSelftest {
  std::string_view op;
  Result<Comparison> (*compare)(const Context&, const KernelDescription& kernel);
};

constexpr std::array kOps = {OpSelftest{"ternary_quantize", selftest_ternary_quantize},
                             OpSelftest{"ternary_dequantize", selftest_ternary_dequantize},
                             OpSelftest{"activation_quantize", selftest_activation_quantize},
                             OpSelftest{"linear", selftest_linear},
                             OpSelftest{"affine_quantize", selftest_affine_quantize},
                             OpSelftest{"affine_dequantize", selftest_affine_dequantize},
                             OpSelftest{"fake_quantize", selftest_fake_quantize},
                             OpSelftest{"fake_quantize_backward", selftest_fake_quantize_backward},
                             OpSelftest{"choose_qparams", selftest_choose_qparams},
                             OpSelftest{"dynamic_quantize", selftest_dynamic_quantize}};

const OpSelftest* find(std::string_view op) {
  for (const OpSelftest& o : kOps)
    if (o.op == op) return &o;
  return nullptr;
}

// Why TERN_FORCE_KERNEL makes another kernel run in place of this one; empty if it does not. If it names no kernel that
// can run here, select() reports that.
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
  if (!op.empty() && find(op) == nullptr) {
    std::vector<std::string_view> known;
    for (const OpSelftest& o : kOps) known.push_back(o.op);
    return error(Code::invalid_argument, "selftest", "'{}' is not one of {}", op, listed(known));
  }
  TERN_ASSIGN(list, kernels(context));
  TERN_ASSIGN(options, read_options());
  std::vector<SelftestResult> results;
  for (const KernelDescription& kernel : list) {
    if (!op.empty() && kernel.op != op) continue;
    SelftestResult result{.op = kernel.op, .kernel = kernel.name, .skipped = kernel.refused};
    if (result.skipped.empty()) result.skipped = displaced(options, list, kernel);
    if (result.skipped.empty()) {
      const OpSelftest* selftest_of_op = find(kernel.op);
      if (selftest_of_op == nullptr) return error(Code::internal, "selftest", "op {} has no selftest", kernel.op);
      TERN_ASSIGN(comparison, selftest_of_op->compare(context, kernel));
      result.problems = comparison.problems;
      result.difference = comparison.difference;
    }
    if (progress) progress(result);
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace tern::lab
