// tern selftest: compares every kernel that this machine can run with the reference.
#include "lab/selftest.h"

#include <fmt/format.h>

#include "arguments.h"
#include "json.h"
#include "log.h"
#include "progress_bar.h"
#include "table.h"
#include "units.h"

namespace tern::cli {
namespace {

struct SelftestArguments {
  std::string op;
  std::optional<int> threads;
  std::string device;
  bool summary = false;
  OutputArguments output;
};

struct Counts {
  std::int64_t problems = 0;
  int passed = 0;
  int failed = 0;
  int skipped = 0;
};

const char* status(const lab::SelftestResult& result) {
  if (!result.skipped.empty()) return "skipped";
  return result.difference.empty() ? "ok" : "different";
}

std::string outcome(const lab::SelftestResult& result) {
  if (!result.skipped.empty()) return "skipped: " + result.skipped;
  return result.difference.empty() ? "ok" : "DIFFERENT: " + result.difference;
}

Counts count(const std::vector<lab::SelftestResult>& results) {
  Counts counts;
  for (const lab::SelftestResult& r : results) {
    ++(!r.skipped.empty() ? counts.skipped : r.difference.empty() ? counts.passed : counts.failed);
    if (r.skipped.empty()) counts.problems += r.problems;
  }
  return counts;
}

// One sentence, and a line for each kernel that differs.
void print_summary(const std::vector<lab::SelftestResult>& results, const Counts& counts) {
  const std::string kernels = counts.failed == 0
                                  ? fmt::format("{} kernels agree", counts.passed)
                                  : fmt::format("{} of {} kernels agree", counts.passed, counts.passed + counts.failed);
  fmt::print("{} with the reference on {} problems\n", kernels, counts.problems);
  for (const lab::SelftestResult& r : results)
    if (r.skipped.empty() && !r.difference.empty()) fmt::print("{}: {}\n", r.kernel, outcome(r));
}

Json to_json(const lab::SelftestResult& r) {
  return {{"op", r.op},
          {"kernel", r.kernel},
          {"status", status(r)},
          {"problems", r.problems},
          {"skipped", r.skipped.empty() ? Json(nullptr) : Json(r.skipped)},
          {"difference", r.difference.empty() ? Json(nullptr) : Json(r.difference)}};
}

Json to_json(const GpuMemoryInfo& memory) {
  return {{"in_use_bytes", memory.in_use_bytes},     {"in_use_peak_bytes", memory.in_use_peak_bytes},
          {"reserved_bytes", memory.reserved_bytes}, {"reserved_peak_bytes", memory.reserved_peak_bytes},
          {"fragmentation", memory.fragmentation()}, {"free_bytes", memory.free_bytes},
          {"total_bytes", memory.total_bytes}};
}

Result<int> run(const SelftestArguments& arguments) {
  if (!arguments.op.empty())
    if (const Status known = check_op(arguments.op, "--op"); !known.ok()) return known.error();
  // Under --verbose one line per kernel is enough; an observer that logs every run would bury them.
  const Result<Context> context = open_context(arguments.threads, arguments.device, std::make_shared<Observer>());
  if (!context.ok()) return context.error();
  ProgressBar bar(!arguments.output.json);
  bar.phase("comparing kernels with the reference");
  const Result<std::vector<lab::SelftestResult>> results =
      lab::selftest(*context, arguments.op, [&bar](const lab::SelftestResult& r) {
        log_line(fmt::format("{}: {}", r.kernel, outcome(r)));
        bar.phase(fmt::format("{} {}", r.kernel, status(r)));
      });
  bar.clear();
  if (!results.ok()) return results.error();

  const Counts counts = count(*results);
  std::optional<GpuMemoryInfo> memory;  // that the kernels used on a GPU
  if (context->device().gpu) {
    const Result<GpuMemoryInfo> info = context->memory_info();
    if (!info.ok()) return info.error();
    memory = *info;
  }
  if (arguments.output.json) {
    Json list = Json::array();
    for (const lab::SelftestResult& r : *results) list.push_back(to_json(r));
    Json document = {{"device", name(context->device().id)},
                     {"threads", context->threads()},
                     {"results", std::move(list)},
                     {"passed", counts.passed},
                     {"failed", counts.failed},
                     {"skipped", counts.skipped}};
    if (memory) document["gpu_memory"] = to_json(*memory);
    print_json(document);
  } else if (arguments.summary) {
    print_summary(*results, counts);
    fmt::print("{} passed, {} failed, {} skipped\n", counts.passed, counts.failed, counts.skipped);
  } else {
    Table table({"KERNEL", "PROBLEMS", "RESULT"});
    table.align(1, Table::Align::right);
    for (const lab::SelftestResult& r : *results)
      table.add({r.kernel, r.skipped.empty() ? fmt::format("{}", r.problems) : "-", outcome(r)});
    fmt::print("{}\n", table.str());
    if (memory)
      fmt::print("GPU memory: {} in use (peak {}), {} reserved (peak {}), {:.0f} % of it unused, {} of {} free\n",
                 human_bytes(memory->in_use_bytes), human_bytes(memory->in_use_peak_bytes),
                 human_bytes(memory->reserved_bytes), human_bytes(memory->reserved_peak_bytes),
                 100 * memory->fragmentation(), human_bytes(memory->free_bytes), human_bytes(memory->total_bytes));
    fmt::print("{} passed, {} failed, {} skipped\n", counts.passed, counts.failed, counts.skipped);
  }
  return counts.failed > 0 ? 1 : 0;
}

}  // namespace

void add_selftest(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<SelftestArguments>();
  CLI::App* command = app.add_subcommand("selftest", "Compare every kernel that runs here with the reference");
  command->add_option("--op", arguments->op, "Only the kernels of this op; otherwise all")->type_name("OP");
  command->add_flag("--summary", arguments->summary, "One line for all kernels, and one for each that differs");
  add_threads_argument(*command, arguments->threads);
  add_device_argument(*command, arguments->device);
  add_output_arguments(*command, arguments->output);
  add_examples(*command, {"tern selftest", "tern selftest --summary", "tern selftest --op ternary_quantize --threads 2",
                          "tern selftest --json"});
  on_run(*command, session, std::move(arguments), &run);
}

}  // namespace tern::cli
