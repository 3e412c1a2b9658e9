// What quantize and convert share: open, plan, show the plan, write with a progress bar, summarize.
#include "write_model.h"

#include <fmt/format.h>

#include <filesystem>

#include "file_paths.h"
#include "html_report.h"
#include "json.h"
#include "model_text.h"
#include "progress_bar.h"
#include "standard_output.h"
#include "tern/quantize.h"
#include "tern/text.h"

namespace tern::cli {
namespace {

Result<Context> open_device(const ModelRun& run) {
  if (run.device != "auto") return open_context(run.threads, run.device);
  // If the first GPU cannot be used, auto falls back to the CPU; it is an error only if a GPU was named.
  Result<Context> gpu = open_context(run.threads, "cuda:0");
  return gpu.ok() ? std::move(gpu) : open_context(run.threads, "cpu");
}

bool same_place(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return std::filesystem::equivalent(a, b, ignored) || resolved(a) == resolved(b);
}

// The output must not replace a file that was read.
Status check_no_input(const ModelRun& run, const Model& model, const std::string& output, const char* option) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path folder =
      fs::is_directory(run.input, ignored) ? fs::path(run.input) : fs::path(run.input).parent_path();
  std::vector<std::string> inputs = {run.input, (folder / "config.json").string(),
                                     (folder / "model.safetensors.index.json").string()};
  for (const CheckpointFile& file : model.checkpoint().files()) inputs.push_back(file.path);
  if (!run.kernel_config.empty()) inputs.push_back(run.kernel_config);
  for (const std::string& input : inputs)
    if (same_place(output, input))
      return Error{Code::invalid_argument, fmt::format("'{}' is an input; name another file", output), option};
  return {};
}

// Checks everything that can be known to fail, before the plan is shown and hours of work go into it.
Status check_run(const ModelRun& run, const Context& context, const Model& model, const ModelPlan& plan) {
  if (plan.container != Container::gguf && !run.write.architecture.empty())
    return Error{Code::invalid_argument,
                 fmt::format("'{}' is for GGUF; safetensors names no architecture", run.write.architecture),
                 "--architecture"};
  if (run.write.tl2_id != WriteOptions().tl2_id && plan.layout != Layout::tl2)
    return Error{Code::invalid_argument, fmt::format("it is for tl2; the format is {}", name(plan.layout)),
                 "--later-tl2"};
  if (Status path = check_no_input(run, model, run.output_path, "--output"); !path.ok()) return path;
  if (!run.report_path.empty() && !is_standard_output(run.report_path)) {
    if (Status path = check_no_input(run, model, run.report_path, "--report"); !path.ok()) return path;
    if (same_place(run.report_path, run.output_path))
      return Error{Code::invalid_argument, fmt::format("'{}' is the output; name another file", run.report_path),
                   "--report"};
  }
  for (const TensorPlan& tensor : plan.tensors) {
    if (tensor.action != Action::quantize) continue;
    const ModelTensor& input = model.tensors()[tensor.input];
    const auto kernel = TernaryQuantizePlan::select(context,
                                                    {.rows = input.n(),
                                                     .k = input.k(),
                                                     .dtype = *info(input.type).dtype,
                                                     .scheme = plan.scheme,
                                                     .granularity = plan.granularity,
                                                     .non_finite = plan.non_finite},
                                                    plan.preference);
    if (!kernel.ok()) return kernel.error();
  }
  return {};
}

}  // namespace

Error with_option(Error error) {
  if (error.code == Code::quality_below_limit) error.where = "--max-error";
  if (error.code == Code::non_finite) error.where = "--non-finite";
  return error;
}

Result<int> run_model(ModelRun run, const char* phase) {
  if (run.dry_run && !run.report_path.empty())
    return Error{Code::invalid_argument,
                 fmt::format("'{}' is of what was written, and --dry-run writes nothing; leave out one of them",
                             run.report_path),
                 "--report"};
  if (is_standard_output(run.output_path))
    return Error{Code::invalid_argument,
                 "'-' is standard output, and a checkpoint cannot be written there: checksums in its first bytes are "
                 "known only after its last ones; name a .gguf or .safetensors file",
                 "--output"};
  if (Status path = check_output_path("", run.output_path); !path.ok()) return path.error();
  if (!run.report_path.empty())
    if (Status path = check_output_path("", run.report_path); !path.ok())
      return Error{path.code(), path.error().message, "--report"};
  const Result<Context> context = open_device(run);
  if (!context.ok()) return context.error();
  const Result<Model> model = Model::open(run.input, run.read);
  if (!model.ok()) return model.error();
  run.write.histograms = !run.report_path.empty();
  const Result<ModelPlan> plan = plan_model(*model, run.output_path, run.write);
  if (!plan.ok()) return plan.error();
  if (Status sound = check_run(run, *context, *model, *plan); !sound.ok()) return sound.error();
  const bool json = run.output.json;
  if (!json)
    print_beside(run.report_path,
                 fmt::format("{} -> {}\n\n{}", one_line(run.input),
                             run.dry_run ? "nothing, a dry run" : one_line(run.output_path), plan_text(*model, *plan)));
  if (run.dry_run) {
    if (json) print_json({{"dry_run", true}, {"plan", plan_json(*model, *plan)}});
    return 0;
  }
  std::fflush(stdout);

  ProgressBar bar(!json && !run.output.verbose);
  bar.phase(phase);
  const Result<ModelReport> report = write_model(*context, *model, *plan, run.output_path,
                                                 [&bar](std::string_view, std::size_t done, std::size_t total) {
                                                   bar.update(done, total);
                                                   return true;
                                                 });
  bar.clear();
  if (!report.ok()) return with_option(report.error());
  // Row and group scales are found in the pass that writes the codes; one scale for the whole tensor needs a pass
  // before that.
  const bool twice = plan->count(Action::quantize) > 0 && plan->granularity == Granularity::tensor();
  const Written written{*model, *plan, *report, *context, run.output_path, twice};
  if (!run.report_path.empty())
    if (Status saved = save_html_report(run.report_path, written); !saved.ok()) return saved.error();
  if (json) {
    Json document = summary_json(written);
    document["plan"] = plan_json(*model, *plan);
    print_json_beside(run.report_path, document);
  } else {
    print_beside(run.report_path, "\n" + summary_text(written));
  }
  return 0;
}

void add_quantize_model_arguments(CLI::App& command, QuantizeModelArguments& arguments) {
  command.add_option("--include", arguments.include, "Quantize only matrices with this in their name")
      ->type_name("REGEX");
  command.add_option("--exclude", arguments.exclude, "Keep matrices with this in their name as they are")
      ->type_name("REGEX");
  command.add_option("--match", arguments.match, "bitnet: round as BitNet's own converter does")->type_name("NAME");
  command.add_flag("--dry-run", arguments.dry_run, "Show what would be done with each tensor, and stop");
  command.add_option("--report", arguments.report, "Write a page with plots, too; - for standard output")
      ->type_name("OUT.html");
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
    return Error{Code::invalid_argument, fmt::format("'{}' cannot be matched; bitnet can", arguments.match), "--match"};
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
