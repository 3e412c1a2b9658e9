// tern kernels: lists the kernels, and whether each runs on this machine.
#include <fmt/format.h>

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

Result<int> run(const KernelsArguments& arguments) {
  if (!arguments.op.empty())
    if (const Status known = check_op(arguments.op, "--op"); !known.ok()) return known.error();
  const Result<Context> context = open_context(std::nullopt, arguments.device);
  if (!context.ok()) return context.error();
  Result<std::vector<KernelDescription>> list = kernels(*context);
  if (!list.ok()) return list.error();
  if (!arguments.op.empty()) std::erase_if(*list, [&](const KernelDescription& k) { return k.op != arguments.op; });

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
  command->add_option("--op", arguments->op, "Only the kernels of this op; otherwise all")->type_name("OP");
  add_device_argument(*command, arguments->device);
  add_output_arguments(*command, arguments->output);
  add_examples(*command, {"tern kernels", "tern kernels --op ternary_quantize", "tern kernels --json"});
  on_run(*command, session, std::move(arguments), &run);
}

}  // namespace tern::cli
