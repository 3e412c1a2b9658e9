// What quantize and convert share: open, plan, show the plan, write with a progress bar, summarize.
#include "write_model.h"

#include <fmt/format.h>

#include <filesystem>

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

bool same_place(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::equivalent(a, b, ignored)) return true;
  return fs::weakly_canonical(fs::absolute(a), ignored) == fs::weakly_canonical(fs::absolute(b), ignored);
}

// A page must not take the place of the model, nor of a file it is made from.
Status check_report_path(const ModelRun& run, const Model& model) {
  namespace fs = std::filesystem;
  const std::string& report = run.report_path;
  if (Status path = check_model_output(report); !path.ok()) return Error{path.code(), path.error().message, "--report"};
  if (same_place(report, run.output_path))
    return Error{Code::invalid_argument, fmt::format("'{}' is the output; name the page otherwise", report),
                 "--report"};
  std::error_code ignored;
  const fs::path folder =
      fs::is_directory(run.input, ignored) ? fs::path(run.input) : fs::path(run.input).parent_path();
  std::vector<std::string> inputs = {run.input, (folder / "config.json").string(),
                                     (folder / "model.safetensors.index.json").string()};
  for (const CheckpointFile& file : model.checkpoint().files()) inputs.push_back(file.path);
  if (!run.kernel_config.empty()) inputs.push_back(run.kernel_config);
  for (const std::string& input : inputs)
    if (same_place(report, input))
      return Error{Code::invalid_argument, fmt::format("'{}' is an input; name the page otherwise", report),
                   "--report"};
  return {};
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
  if (plan->container != Container::gguf && !run.write.architecture.empty())
    return Error{Code::invalid_argument,
                 fmt::format("'{}' is for GGUF; safetensors names no architecture", run.write.architecture),
                 "--architecture"};
  if (run.write.tl2_id != WriteOptions().tl2_id && plan->layout != Layout::tl2)
    return Error{Code::invalid_argument, fmt::format("it is for tl2; the format is {}", name(plan->layout)),
                 "--later-tl2"};
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
    if (Status path = check_report_path(run, *model); !path.ok()) return path.error();
  std::fflush(stdout);

  ProgressBar bar(!json && !run.output.verbose);
  bar.phase(phase);
  const Result<ModelReport> report = write_model(*context, *model, *plan, run.output_path,
                                                 [&bar](std::string_view, std::size_t done, std::size_t total) {
                                                   bar.update(done, total);
                                                   return true;
                                                 });
  bar.clear();
  if (!report.ok()) return report.error();
  // Row and group scales are found in the pass that writes the codes; one scale for a tensor needs a pass before.
  const bool twice = plan->count(Action::quantize) > 0 && plan->granularity == Granularity::tensor();
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
                    .kernel_config = arguments.read.kernel_config,
                    .output = words.output},
                   "quantizing");
}

}  // namespace tern::cli
