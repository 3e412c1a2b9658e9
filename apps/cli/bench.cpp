// tern bench: how fast kernels are, as a share of this machine's measured peak.
#include "lab/bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "arguments.h"
#include "json.h"
#include "log.h"
#include "progress_bar.h"
#include "shape_arguments.h"
#include "table.h"
#include "units.h"

namespace tern::cli {
namespace {

struct BenchArguments {
  std::string op;
  ShapeArguments shape;
  std::optional<std::int64_t> m;
  SchemeArguments scheme;
  std::string dtype;
  std::optional<std::string> math, y, precision, method;
  std::string model;
  bool baselines = false;
  std::string threads;
  std::string kernel;
  bool all_kernels = false;
  bool cold = false;
  bool warm = false;
  std::optional<int> repetitions;
  std::string device, tuning;
  std::string from;
  OutputArguments output;
};

Result<std::vector<int>> parse_thread_counts(const std::string& text) {
  std::vector<int> counts;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int count = 0;
    const auto [rest, failure] = std::from_chars(at, end, count);
    const bool last = rest == end;
    if (failure != std::errc() || count < 1 || count > kMaxThreads || (!last && (*rest != ',' || rest + 1 == end)))
      return Error{Code::invalid_argument,
                   fmt::format("'{}' is not a list of whole numbers from 1 to {}, as in 1,2", text, kMaxThreads),
                   "--threads"};
    counts.push_back(count);
    at = last ? end : rest + 1;
  }
  return counts;
}

Result<lab::BenchRequest> to_request(const BenchArguments& arguments) {
  lab::BenchRequest request;
  if (const Status op = check_op(arguments.op); !op.ok()) return op.error();
  request.op = arguments.op;
  const Result<ProblemShape> shape = parse(arguments.shape, arguments.op);
  if (!shape.ok()) return shape.error();
  request.rows = shape->rows;
  request.k = shape->k;
  request.window = shape->window;
  request.m = arguments.m;
  const Result<SchemeWords> words = parse(arguments.scheme, arguments.op);
  if (!words.ok()) return words.error();
  request.scheme = words->scheme;
  request.granularity = words->granularity;
  request.format = words->format;
  if (!arguments.dtype.empty()) {
    const Result<DType> dtype = parse_dtype_of(arguments.op, arguments.dtype);
    if (!dtype.ok()) return dtype.error();
    request.dtype = *dtype;
  }
  const Status known = check_words(arguments.op, {{arguments.math.has_value(), Word::math, "--math"},
                                                  {arguments.y.has_value(), Word::y, "--y"},
                                                  {!arguments.model.empty(), Word::model, "--model"},
                                                  {arguments.baselines, Word::baselines, "--baselines"},
                                                  {!arguments.tuning.empty(), Word::tuning, "--tuning"}});
  if (!known.ok()) return known.error();
  if (arguments.y) {
    const Result<DType> y = parse_dtype(*arguments.y);
    if (!y.ok()) return Error{y.code(), y.error().message, "--y"};
    request.y_dtype = *y;
  }
  if (arguments.precision) {
    const Result<Precision> precision = parse_precision_of(arguments.op, *arguments.precision,
                                                           arguments.y               ? "--y"
                                                           : arguments.dtype.empty() ? ""
                                                                                     : "--dtype");
    if (!precision.ok()) return precision.error();
    request.precision = *precision;
  }
  const Result<LinearMath> math = parse_linear_math(arguments.math.value_or("w2a8"));
  if (!math.ok()) return math.error();
  request.math = *math;
  const Result<QparamsMethod> method = parse_method(arguments.method, arguments.op);
  if (!method.ok()) return method.error();
  request.method = *method;
  request.model = arguments.model;
  request.baselines = arguments.baselines;
  Result<std::vector<int>> threads = parse_thread_counts(arguments.threads);
  if (!threads.ok()) return threads.error();
  request.threads = *std::move(threads);
  if (!arguments.device.empty()) {
    const Result<DeviceId> device = parse_device(arguments.device);
    if (!device.ok()) return device.error();
    request.device = *device;
  }
  if (!arguments.from.empty()) {
    if (arguments.op != "ternary_quantize" || (arguments.from != "pinned" && arguments.from != "pageable"))
      return Error{Code::invalid_argument,
                   fmt::format("'{}' for {}: ternary_quantize takes pinned or pageable", arguments.from, arguments.op),
                   "--from"};
    request.from_host = arguments.from == "pinned" ? lab::HostMemoryKind::pinned : lab::HostMemoryKind::pageable;
  }
  const Result<Tuning> tuning = parse_tuning(arguments.tuning);
  if (!tuning.ok()) return tuning.error();
  request.tuning = *tuning;
  request.kernel = arguments.kernel;
  request.all_kernels = arguments.all_kernels;
  request.weights = arguments.warm ? lab::Weights::warm : lab::Weights::cold;
  request.repetitions = arguments.repetitions.value_or(0);
  return request;
}

// "rows 65536, cols 4096, dtype f32, ..."
std::string problem_text(const Json& problem) {
  std::vector<std::string> facts;
  for (const auto& [key, value] : problem.items())
    facts.push_back(fmt::format("{} {}", key, value.is_string() ? value.get<std::string>() : value.dump()));
  return fmt::format("{}", fmt::join(facts, ", "));
}

// A sign for each 10 %. Full at the limit; a rate above the limit (data in the caches) is shown as full.
std::string bar(double share) {
  constexpr double kColumns = 10;
  return std::string(static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * kColumns)), '#');
}

// The rate in the unit of the limit: bytes or operations.
bool by_operations(const lab::Record& r) { return r.gops && r.limit.name.ends_with("peak"); }
double rate(const lab::Record& r) { return by_operations(r) ? *r.gops : r.gb_per_s; }
std::string rate_unit(const lab::Record& r) { return by_operations(r) ? "GOPS" : "GB/s"; }

// What a row of a model's table is about.
std::string layer_text(const Json& problem) {
  std::vector<std::string> parts;
  const auto joined = [&parts](const Json& numbers, std::string_view between) {
    parts.clear();
    for (const Json& number : numbers) parts.push_back(number.dump());
    return fmt::format("{}", fmt::join(parts, between));
  };
  if (problem.contains("n")) return fmt::format("{} x {}", joined(problem["n"], "+"), problem["cols"].dump());
  if (!problem.contains("filters")) return "all of them, in turn";
  std::string text = fmt::format("{} on {}x{}", joined(problem["filters"], "x"), problem["image"][1].dump(),
                                 problem["image"][2].dump());
  if (problem["stride"][0] != 1) text += fmt::format(" / {}", problem["stride"][0].dump());
  return text;
}

void print_models(const lab::BenchReport& report) {
  const lab::ModelSummary& first = report.models.front();
  const std::string title = fmt::format("All {} of {} on {}: {}, {} of weights and activations", first.layers,
                                        first.name, report.machine.name, counted(first.m, first.item.c_str()),
                                        human_bytes(static_cast<std::size_t>(first.bytes)));
  for (const std::string& line : wrap(title, kTextColumns)) fmt::print("{}\n", line);
  fmt::print("\n");
  Table problems({report.records.front().problem.contains("filters") ? "FILTERS" : "N x K", "X", "THREADS", "MEDIAN",
                  rate_unit(report.records.front()), "LIMIT", "SHARE", ""});
  for (std::size_t column = 2; column < 7; ++column) problems.align(column, Table::Align::right);
  for (const lab::Record& r : report.records) {
    problems.add({layer_text(r.problem), r.problem["dtype"].get<std::string>(), fmt::format("{}", r.threads),
                  human_seconds(r.median_us / 1e6), fmt::format("{:.2f}", rate(r)),
                  fmt::format("{:.2f}", r.limit.value), fmt::format("{:.1f} %", 100 * r.limit.share),
                  bar(r.limit.share)});
  }
  fmt::print("{}\n", problems.str());
  Table models({"X", "THREADS", "MODEL", first.item == "token" ? "TOKENS/s" : "IMAGES/s", "FLOOR", "SHARE", "LOWEST"});
  for (std::size_t column = 1; column < 7; ++column) models.align(column, Table::Align::right);
  for (const lab::ModelSummary& m : report.models)
    models.add({std::string(name(m.x_dtype)), fmt::format("{}", m.threads), human_seconds(m.milliseconds / 1e3),
                fmt::format("{:.1f}", m.items_per_s), fmt::format("{:.1f}", m.floor_items_per_s),
                fmt::format("{:.1f} %", 100 * m.share), fmt::format("{:.1f} %", 100 * m.lowest_share)});
  fmt::print("{}\n", models.str());
  const std::string remarks = fmt::format(
      "MODEL is {}. FLOOR is what this machine's {} allows, measured in turns; SHARE compares the two, LOWEST is the "
      "worst problem's.",
      report.machine.id.kind == DeviceKind::cuda ? "all of them as one graph, each after its predecessor"
                                                 : "the sum of the medians, each as often as it occurs",
      first.limit);
  for (const std::string& line : wrap(remarks, kTextColumns)) fmt::print("{}\n", line);
}

void print_text(const lab::BenchReport& report) {
  if (!report.models.empty()) return print_models(report);
  const lab::Record& first = report.records.front();
  fmt::print("{} on {} ({})\n{}\n\n", first.op, first.device, report.machine.name, problem_text(first.problem));
  const auto with_baseline =
      std::ranges::find_if(report.records, [](const lab::Record& r) { return !r.baselines.empty(); });
  const bool compared = with_baseline != report.records.end();
  std::vector<std::string> header = {"KERNEL", "THREADS", "WEIGHTS", "MEDIAN", rate_unit(first), "LIMIT", "SHARE"};
  if (compared) header.emplace_back("SPEEDUP");
  header.emplace_back("");
  Table table(header);
  for (std::size_t column = 1; column + 1 < header.size(); ++column) table.align(column, Table::Align::right);
  for (const lab::Record& r : report.records) {
    std::vector<std::string> cells = {r.kernel,
                                      fmt::format("{}", r.threads),
                                      std::string(name(r.weights)),
                                      human_seconds(r.median_us / 1e6),
                                      fmt::format("{:.2f}", rate(r)),
                                      fmt::format("{:.2f}", r.limit.value),
                                      fmt::format("{:.1f} %", r.limit.share * 100)};
    if (compared) {
      std::vector<std::string> all;
      for (const lab::Record::Baseline& b : r.baselines) all.push_back(fmt::format("{:.1f}x", b.speedup));
      cells.push_back(fmt::format("{}", fmt::join(all, " ")));
    }
    cells.push_back(bar(r.limit.share));
    table.add(std::move(cells));
  }
  fmt::print("{}\n", table.str());

  std::string remarks =
      fmt::format("The limit is this machine's {}, measured in turns with the kernel.", first.limit.name);
  for (const lab::CalibratedLoop& loop : report.limits)
    remarks +=
        fmt::format(" With {} thread{} its fastest loop is {}.", loop.threads, loop.threads == 1 ? "" : "s", loop.loop);
  if (compared) {
    std::vector<std::string> all;
    for (const lab::Record::Baseline& b : with_baseline->baselines) all.push_back(b.name);
    remarks += fmt::format(" The speedup is over {}.", fmt::join(all, " and "));
  }
  for (const std::string& note : first.notes) remarks += fmt::format(" Note: {}.", note);
  for (const std::string& line : wrap(remarks, kTextColumns)) fmt::print("{}\n", line);
}

Result<int> run(const BenchArguments& arguments) {
  const Result<lab::BenchRequest> request = to_request(arguments);
  if (!request.ok()) return request.error();
  ProgressBar progress;
  const Result<lab::BenchReport> report = lab::bench(*request, [&progress](const std::string& what) {
    log_line(what);
    progress.phase(what);
  });
  progress.clear();
  if (!report.ok()) return report.error();
  if (arguments.output.json) {
    print_json(lab::to_json(*report));
  } else {
    print_text(*report);
  }
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command = app.add_subcommand("bench", "Time kernels against what this machine can do at best");
  add_shape_arguments(*command, arguments->shape,
                      "Of the tensor, or of linear's weights; otherwise 65536x4096, of\nlinear 2560x2560, of "
                      "activation_quantize 65536x2560");
  add_op_arguments(*command, arguments->op, arguments->m, arguments->scheme);
  command
      ->add_option("--dtype", arguments->dtype,
                   "Of the floats: f32 (default), f16, bf16, f64; of linear\nand conv2d i8 (default), f32, f16, bf16")
      ->type_name("NAME");
  command->add_option("--math", arguments->math, "Of linear and conv2d: w2a8 (default) or w2_float")->type_name("NAME");
  command->add_option("--y", arguments->y, "Of linear's and conv2d's results: f32 (default), f16, bf16, i32")
      ->type_name("NAME");
  add_precision_argument(*command, arguments->precision);
  add_method_argument(*command, arguments->method);
  command
      ->add_option("--model", arguments->model,
                   "All layers of a model: of linear bitnet-2b; of conv2d resnet18,\nresnet50, mobilenet_v2, vgg16")
      ->type_name("NAME");
  command->add_flag("--baselines", arguments->baselines,
                    "Of linear and conv2d: also time OpenBLAS and oneDNN, or cuBLAS;\nof conv2d plain loops too");
  command
      ->add_option("--threads", arguments->threads,
                   fmt::format("1 to {} each, as in 1,2; otherwise all this process may use", kMaxThreads))
      ->type_name("LIST");
  auto* kernel = command->add_option("--kernel", arguments->kernel, "This kernel; otherwise the one selection picks");
  kernel->type_name("NAME");
  command->add_flag("--all-kernels", arguments->all_kernels, "Every kernel that takes the problem here")
      ->excludes(kernel);
  auto* cold = command->add_flag("--cold", arguments->cold, "Data that no cache holds (default)");
  command->add_flag("--warm", arguments->warm, "Data that was just used")->excludes(cold);
  command
      ->add_option("--repetitions", arguments->repetitions,
                   "Samples per kernel, 1 to 1000000; otherwise 5 to 30, by its speed")
      ->check(whole_number(1, 1'000'000))
      ->type_name("N");
  add_device_argument(*command, arguments->device);
  add_tuning_argument(*command, arguments->tuning);
  command
      ->add_option(
          "--from", arguments->from,
          "Of ternary_quantize on a GPU: its input in pinned or pageable\nmemory of the host; otherwise the GPU's")
      ->type_name("NAME");
  add_output_arguments(*command, arguments->output);
  add_examples(*command, {"tern bench ternary_quantize --all-kernels",
                          "tern bench ternary_quantize --scheme absmax --granularity group:128 --threads 1,2",
                          "tern bench ternary_quantize --shape 1x4096 --warm --threads 1",
                          "tern bench ternary_quantize --dtype bf16 --granularity row --threads 1",
                          "tern bench affine_quantize --granularity group:128 --format s4 --threads 2",
                          "tern bench dynamic_quantize --granularity group:128 --threads 2",
                          "tern bench linear --shape 2560x6912 --m 128 --warm --threads 1",
                          "tern bench linear --model bitnet-2b --threads 1,2",
                          "tern bench linear --model bitnet-2b --device cuda:0 --dtype bf16 --y bf16 --baselines",
                          "tern bench conv2d --shape 128x128x3x3 --image 28x28 --threads 1,2 --baselines",
                          "tern bench conv2d --model resnet18 --threads 1,2",
                          "tern bench ternary_quantize --device cuda:0 --scheme absmax --granularity group:128",
                          "tern bench ternary_quantize --device cuda:0 --granularity row --from pinned",
                          "tern bench ternary_dequantize --kernel ternary_dequantize.i2.x86_avx2 --json"});
  on_run(*command, session, std::move(arguments), &run);
}

}  // namespace tern::cli
