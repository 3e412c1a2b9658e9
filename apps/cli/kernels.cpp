// tern kernels: the list of kernels, seen from this machine.
#include <fmt/format.h>

#include <algorithm>

#include "arguments.h"
#include "json.h"
#include "table.h"
#include "tern/plan.h"

namespace tern::cli {
namespace {

struct KernelsArguments {
  std::string op;
  std::string device;
  OutputArguments output;
};

Json to_json(const KernelDescription& k) {
  return {{"name", k.name},
          {"op", k.op},
          {"format", k.format},
          {"needs", k.needs},
          {"dtypes", k.dtypes},
          {"schemes", k.schemes},
          {"in_build", k.in_build},
          {"runs_here", k.refused.empty()},
          {"refused", k.refused.empty() ? Json(nullptr) : Json(k.refused)}};
}

// Only those of `op`; an op nobody has is an error that lists the ones there are.
Status keep_only(const std::string& op, std::vector<KernelDescription>& list) {
  std::vector<std::string> ops;
  for (const KernelDescription& k : list)
    if (std::find(ops.begin(), ops.end(), k.op) == ops.end()) ops.push_back(k.op);
  if (std::find(ops.begin(), ops.end(), op) == ops.end())
    return Error{Code::invalid_argument, fmt::format("'{}' is not one of {}", op, fmt::join(ops, ", ")), "--op"};
  std::erase_if(list, [&op](const KernelDescription& k) { return k.op != op; });
  return {};
}

Result<int> run(const KernelsArguments& arguments) {
  const Result<Context> context = open_context(std::nullopt, arguments.device);
  if (!context.ok()) return context.error();
  Result<std::vector<KernelDescription>> list = kernels(*context);
  if (!list.ok()) return list.error();
  if (!arguments.op.empty())
    if (Status kept = keep_only(arguments.op, *list); !kept.ok()) return kept.error();

  if (arguments.output.json) {
    Json rows = Json::array();
    for (const KernelDescription& k : *list) rows.push_back(to_json(k));
    print_json({{"device", name(context->device().id)}, {"kernels", std::move(rows)}});
    return 0;
  }
  Table table({"KERNEL", "NEEDS", "BUILT", "RUNS HERE"});
  for (const KernelDescription& k : *list)
    table.add({k.name, k.needs.empty() ? "-" : fmt::format("{}", fmt::join(k.needs, " ")), k.in_build ? "yes" : "no",
               k.refused.empty() ? "yes" : "no: " + k.refused});
  fmt::print("{}", table.str());
  return 0;
}

}  // namespace

void add_kernels(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<KernelsArguments>();
  CLI::App* command = app.add_subcommand("kernels", "List the kernels, and which of them run on this machine");
  command->add_option("--op", arguments->op, "Only the kernels of this op")->type_name("OP");
  add_device_argument(*command, arguments->device);
  add_output_arguments(*command, arguments->output);
  add_examples(*command, {"tern kernels", "tern kernels --op ternary_quantize", "tern kernels --json"});
  on_run(*command, session, std::move(arguments), &run);
}

}  // namespace tern::cli
