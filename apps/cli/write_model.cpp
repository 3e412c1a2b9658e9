// What quantize and convert share: open, plan, show the plan, write with a progress bar, summarize.
#include "write_model.h"

#include <fmt/format.h>

#include "html_report.h"
#include "json.h"
#include "model_text.h"
#include "progress_bar.h"

namespace tern::cli {
namespace {

Result<Context> open_device(const ModelRun& run) {
  if (run.device != "auto") return open_context(run.threads, run.device);
  // A GPU that is there but cannot be used is an error of its own only when it was named.
  Result<Context> gpu = open_context(run.threads, "cuda:0");
  return gpu.ok() ? std::move(gpu) : open_context(run.threads, "cpu");
}

}  // namespace

Result<int> run_model(ModelRun run, const char* phase) {
  const Result<Context> context = open_device(run);
  if (!context.ok()) return context.error();
  const Result<Model> model = Model::open(run.input, run.read);
  if (!model.ok()) return model.error();
  run.write.histograms = !run.report_path.empty();
  const Result<ModelPlan> plan = plan_model(*model, run.output_path, run.write);
  if (!plan.ok()) return plan.error();
  const bool json = run.output.json;
  if (!json)
    fmt::print("{} -> {}\n\n{}", run.input, run.dry_run ? "nothing, a dry run" : run.output_path,
               plan_text(*model, *plan));
  if (run.dry_run) {
    if (json) print_json({{"dry_run", true}, {"plan", plan_json(*model, *plan)}});
    return 0;
  }
  if (Status path = check_model_output(run.output_path); !path.ok()) return path.error();
  if (!run.report_path.empty())
    if (Status path = check_model_output(run.report_path); !path.ok()) return path.error();
  std::fflush(stdout);

  ProgressBar bar(!json && !run.output.verbose);
  bar.phase(phase);
  const Result<ModelReport> report = write_model(*context, *model, *plan, run.output_path, run.write,
                                                 [&bar](std::string_view, std::size_t done, std::size_t total) {
                                                   bar.update(done, total);
                                                   return true;
                                                 });
  bar.clear();
  if (!report.ok()) return report.error();
  // Row and group scales are found in the pass that writes the codes; one scale for a tensor needs a pass before.
  const bool twice =
      plan->count(Action::quantize) > 0 &&
      run.write.granularity.value_or(scales_in(plan->layout).value_or(Granularity::tensor())) == Granularity::tensor();
  const Written written{*model, *plan, *report, *context, run.output_path, twice};
  if (!run.report_path.empty())
    if (Status saved = save_html_report(run.report_path, written); !saved.ok()) return saved.error();
  if (json) {
    Json document = summary_json(written);
    document["plan"] = plan_json(*model, *plan);
    print_json(document);
  } else {
    fmt::print("\n{}", summary_text(written));
  }
  return 0;
}

void add_quantize_model_arguments(CLI::App& command, QuantizeModelArguments& arguments) {
  command.add_option("--include", arguments.include, "Quantize only matrices with this in their name")
      ->type_name("REGEX");
  command.add_option("--exclude", arguments.exclude, "Keep matrices with this in their name as they are")
      ->type_name("REGEX");
  command.add_option("--match", arguments.match, "bitnet: round as BitNet's own converter does")->type_name("NAME");
  command.add_flag("--dry-run", arguments.dry_run, "Show what would become of each tensor, and stop");
  command.add_option("--report", arguments.report, "Write a page with plots, too")->type_name("OUT.html");
  add_write_arguments(command, arguments.write);
  add_read_arguments(command, arguments.read);
}

Result<int> quantize_model(const QuantizeWords& words, const QuantizeModelArguments& arguments) {
  const Result<ReadOptions> read = parse(arguments.read);
  if (!read.ok()) return read.error();
  Result<WriteOptions> write = parse(arguments.write, words.format, *read);
  if (!write.ok()) return write.error();
  const Result<Scheme> scheme = parse_scheme(words.scheme);
  if (!scheme.ok()) return scheme.error();
  const Result<NonFinite> non_finite = parse_non_finite(words.non_finite);
  if (!non_finite.ok()) return non_finite.error();
  write->scheme = *scheme;
  write->non_finite = *non_finite;
  if (!words.granularity.empty()) {
    const Result<Granularity> granularity = parse_granularity(words.granularity);
    if (!granularity.ok()) return granularity.error();
    write->granularity = *granularity;
  }
  if (!arguments.match.empty() && arguments.match != "bitnet")
    return Error{Code::invalid_argument, fmt::format("'{}' is not bitnet", arguments.match), "--match"};
  write->match_bitnet = !arguments.match.empty();
  write->include = arguments.include;
  write->exclude = arguments.exclude;
  write->preference = {words.kernel, !words.kernel.empty()};
  return run_model({.input = words.input,
                    .output_path = words.output_path,
                    .read = *read,
                    .write = *write,
                    .threads = words.threads,
                    .device = words.device,
                    .dry_run = arguments.dry_run,
                    .report_path = arguments.report,
                    .output = words.output},
                   "quantizing");
}

}  // namespace tern::cli
