// tern quantize: quantizes a tensor, .npy or raw, to an .npz of codes, scales and their description. write_model.cpp
// quantizes checkpoints.
#include "tern/quantize.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "arguments.h"
#include "file_paths.h"
#include "json.h"
#include "mapped_input.h"
#include "progress_bar.h"
#include "run_clock.h"
#include "standard_output.h"
#include "stopwatch.h"
#include "table.h"
#include "tern/io.h"
#include "tern/text.h"
#include "units.h"
#include "write_model.h"

namespace tern::cli {
namespace {

struct QuantizeArguments {
  std::string input;
  std::string output_path;
  std::string dtype;  // with shape: the input is raw, numbers without a header
  std::string shape;
  SchemeArguments scheme;
  std::string scale;
  std::string non_finite = "reject";
  std::string max_error;
  std::string kernel;
  std::optional<int> threads;
  std::string device;
  bool validate = false, no_ready_check = false;
  QuantizeModelArguments model;
  OutputArguments output;
};

struct Seconds {
  std::optional<double> reading;  // empty: pages were read while they were quantized
  double quantizing = 0;
  double measuring = 0;
  double writing = 0;
};

struct Report {
  const QuantizeArguments& arguments;
  const Context& context;
  const ConstTensorView& input;
  const QuantizedTensor& quantized;
  NonFinite non_finite;
  Seconds seconds;
  std::size_t file_bytes;

  [[nodiscard]] std::size_t input_bytes() const { return dense_bytes(input); }
  [[nodiscard]] std::size_t quantized_bytes() const { return quantized.codes.bytes() + quantized.scales.bytes(); }
  [[nodiscard]] double ratio() const {
    return static_cast<double>(input_bytes()) / static_cast<double>(quantized_bytes());
  }
  [[nodiscard]] double gb_per_s() const {
    return static_cast<double>(input_bytes() + quantized_bytes()) / seconds.quantizing / 1e9;
  }
};

void print_as_json(const Report& r) {
  const QuantizedTensor& q = r.quantized;
  print_json_beside(r.arguments.output_path,
                    {{"input",
                      {{"path", r.arguments.input},
                       {"layout", r.arguments.dtype.empty() ? "npy" : "raw"},
                       {"dtype", name(r.input.dtype)},
                       {"shape", to_json(r.input.shape)},
                       {"bytes", r.input_bytes()}}},
                     {"output",
                      {{"path", r.arguments.output_path},
                       {"file_bytes", r.file_bytes},
                       {"codes_bytes", q.codes.bytes()},
                       {"scales_bytes", q.scales.bytes()},
                       {"checksum", fmt::format("{:016x}", q.checksum())}}},
                     {"ratio", r.ratio()},
                     {"scheme", name(q.scheme)},
                     {"granularity", name(q.granularity)},
                     {"format", name(q.format)},
                     {"non_finite", name(r.non_finite)},
                     {"quality", to_json(q.quality.value_or(Quality{}))},
                     {"kernel", q.kernel},
                     {"device", name(r.context.device().id)},
                     {"threads", r.context.threads()},
                     {"seconds",
                      {{"reading", r.seconds.reading ? Json(*r.seconds.reading) : Json(nullptr)},
                       {"quantizing", r.seconds.quantizing},
                       {"measuring", r.seconds.measuring},
                       {"writing", r.seconds.writing}}},
                     {"gb_per_s", r.gb_per_s()}});
}

std::string sqnr_text(const Quality& quality) {
  if (!quality.sqnr_db) return "undefined (every input is 0)";
  if (std::isinf(*quality.sqnr_db)) return "infinite: nothing was lost";
  return fmt::format("{:.2f} dB", *quality.sqnr_db);
}

void print_as_text(const Report& r) {
  const QuantizedTensor& q = r.quantized;
  const Quality quality = q.quality.value_or(Quality{});
  const std::string head = fmt::format("{}: {} {}\n{}: {} by {} to {}\n\n", one_line(r.arguments.input),
                                       name(r.input.dtype), name(r.input.shape), shown_output(r.arguments.output_path),
                                       name(q.scheme), name(q.granularity), name(q.format));
  Table facts({}, 2);
  facts.add({"size", size_change(r.input_bytes(), r.quantized_bytes())});
  facts.add({"SQNR", sqnr_text(quality)});
  facts.add({"cosine", quality.cosine ? fmt::format("{:.6f}", *quality.cosine) : "undefined"});
  facts.add({"zeros", fmt::format("{:.1f} %", quality.zero_fraction * 100)});
  facts.add({"kernel", fmt::format("{} on {}, {}", q.kernel, name(r.context.device().id),
                                   counted(r.context.threads(), "thread"))});
  std::string time = r.seconds.reading ? human_seconds(*r.seconds.reading) + " reading, " : "";
  time += fmt::format("{} {} ({}), ", human_seconds(r.seconds.quantizing),
                      r.seconds.reading ? "quantizing" : "reading and quantizing", gigabytes_per_second(r.gb_per_s()));
  time += fmt::format("{} measuring, {} writing", human_seconds(r.seconds.measuring), human_seconds(r.seconds.writing));
  facts.add({"time", time});
  print_beside(r.arguments.output_path, head + facts.str());
}

// Parses all words before any file is opened. `scale` must outlive the options, which point to it.
Result<QuantizeOptions> parse_options(const QuantizeArguments& arguments, float& scale) {
  const Result<SchemeWords> words = parse(arguments.scheme);
  if (!words.ok()) return words.error();
  const Result<NonFinite> non_finite = parse_non_finite(arguments.non_finite);
  if (!non_finite.ok()) return non_finite.error();
  QuantizeOptions options;
  options.scheme = words->scheme;
  options.granularity = words->granularity;
  options.format = words->format;
  options.non_finite = *non_finite;
  options.measure_quality = true;
  options.preference = {arguments.kernel, !arguments.kernel.empty()};
  options.validate = arguments.validate;
  options.ensure_ready = !arguments.no_ready_check;
  if (!arguments.scale.empty()) {
    const Result<float> given = parse_float("--scale", arguments.scale);
    if (!given.ok()) return given.error();
    if (!std::isfinite(*given) || *given <= 0)
      return Error{Code::invalid_argument,
                   fmt::format("'{}' is no scale; it must be finite and above 0", arguments.scale), "--scale"};
    scale = *given;
    options.scale = {&scale, 1};
  }
  if (!arguments.max_error.empty()) {
    const Result<float> limit = parse_float("--max-error", arguments.max_error);
    if (!limit.ok()) return limit.error();
    // Every comparison with NaN is false, so a limit of NaN would refuse nothing.
    if (!std::isfinite(*limit))
      return Error{Code::invalid_argument, fmt::format("'{}' is not a finite number of dB", arguments.max_error),
                   "--max-error"};
    options.tolerance.min_sqnr_db = *limit;
  }
  return options;
}

// Opens the input: .npy by its header, or raw with the type and shape that were given.
Result<NpyFile> open_input(const QuantizeArguments& arguments) {
  if (arguments.dtype.empty() && arguments.shape.empty()) return NpyFile::open(arguments.input);
  if (arguments.dtype.empty() || arguments.shape.empty()) {
    const bool shape = arguments.dtype.empty();
    return Error{Code::invalid_argument,
                 fmt::format("'{}' was given without {}: raw input needs both, .npy input neither",
                             shape ? arguments.shape : arguments.dtype, shape ? "--dtype" : "--shape"),
                 shape ? "--shape" : "--dtype"};
  }
  const Result<DType> dtype = parse_dtype(arguments.dtype);
  if (!dtype.ok()) return dtype.error();
  const Result<RowsAndColumns> shape = parse_rows_and_columns(arguments.shape);
  if (!shape.ok()) return shape.error();
  return NpyFile::open_raw(arguments.input, *dtype, {shape->rows, shape->columns});
}

// The first option given that has no meaning for a checkpoint (or for a tensor); empty if there is none.
const char* only_for_tensors(const QuantizeArguments& arguments) {
  if (!arguments.dtype.empty()) return "--dtype";
  if (!arguments.shape.empty()) return "--shape";
  if (!arguments.scale.empty()) return "--scale";
  if (arguments.validate) return "--validate";
  if (arguments.no_ready_check) return "--no-ready-check";
  return arguments.max_error.empty() ? "" : "--max-error";
}
const char* only_for_checkpoints(const QuantizeModelArguments& arguments) {
  if (!arguments.include.empty()) return "--include";
  if (!arguments.exclude.empty()) return "--exclude";
  if (!arguments.match.empty()) return "--match";
  if (!arguments.report.empty()) return "--report";
  if (!arguments.write.container.empty()) return "--container";
  if (!arguments.write.embeddings.empty()) return "--keep-embeddings";
  if (!arguments.write.drop.empty()) return "--drop";
  if (!arguments.write.architecture.empty()) return "--architecture";
  if (arguments.write.later_tl2) return "--later-tl2";
  if (!arguments.read.variant.empty()) return "--variant";
  if (!arguments.read.weight_scale.empty()) return "--weight-scale";
  if (!arguments.read.kernel_config.empty()) return "--kernel-config";
  if (!arguments.read.gguf_types.empty()) return "--gguf-type";
  return arguments.dry_run ? "--dry-run" : "";
}
Error misplaced(const char* option, const QuantizeArguments& arguments, const char* what, const char* other) {
  return {Code::invalid_argument, fmt::format("'{}' is a {}; {} is for {}", arguments.input, what, option, other),
          option};
}

Result<int> run_checkpoint(const QuantizeArguments& arguments) {
  if (const char* option = only_for_tensors(arguments); *option != '\0')
    return misplaced(option, arguments, "checkpoint", "single tensors");
  return quantize_model({.input = arguments.input,
                         .output_path = arguments.output_path,
                         .scheme = arguments.scheme.scheme,
                         .granularity = arguments.scheme.granularity_given ? arguments.scheme.granularity : "",
                         .format = arguments.scheme.format,
                         .non_finite = arguments.non_finite,
                         .kernel = arguments.kernel,
                         .device = arguments.device,
                         .threads = arguments.threads,
                         .output = arguments.output},
                        arguments.model);
}

Result<int> run(const QuantizeArguments& arguments) {
  std::error_code ignored;
  if (arguments.dtype.empty() ? is_checkpoint(arguments.input)
                              : std::filesystem::is_directory(arguments.input, ignored))
    return run_checkpoint(arguments);
  if (!std::filesystem::exists(arguments.input, ignored) && !ignored)
    return Error{Code::io_error,
                 fmt::format("'{}' does not exist; name a .npy file, or a checkpoint: a folder, .safetensors or .gguf",
                             arguments.input),
                 "input"};
  if (Status file = check_input_path(arguments.input, "input"); !file.ok()) return file.error();
  if (const char* option = only_for_checkpoints(arguments.model); *option != '\0')
    return misplaced(option, arguments, "tensor", "checkpoints");
  if (arguments.device == "auto")
    return Error{Code::invalid_argument,
                 fmt::format("'{}' is a tensor; auto is for checkpoints, name cpu or cuda:0", arguments.input),
                 "--device"};
  float scale = 0;
  const Result<QuantizeOptions> options = parse_options(arguments, scale);
  if (!options.ok()) return options.error();
  ProgressBar bar(!arguments.output.json && !arguments.output.verbose);
  Stopwatch after_run;
  const auto clock = std::make_shared<RunClock>("ternary_quantize", [&bar, &after_run] {
    bar.phase("measuring");
    after_run.restart();
  });
  const Result<Context> context = open_context(arguments.threads, arguments.device, clock);
  if (!context.ok()) return context.error();
  if (arguments.no_ready_check && context->device().id.kind == DeviceKind::cpu)
    return Error{Code::invalid_argument,
                 "the option skips a check of a GPU's memory, and this runs on cpu; leave it out", "--no-ready-check"};
  const Result<NpyFile> file = open_input(arguments);
  if (!file.ok()) return file.error();
  if (!is_float(file->view().dtype))
    return Error{Code::unsupported,
                 fmt::format("'{}' is {}; f32, f16, bf16 and f64 are quantized, so convert it first", arguments.input,
                             name(file->view().dtype)),
                 "input"};
  if (Status path = check_output_path(arguments.input, arguments.output_path, ".npz"); !path.ok()) return path.error();

  const ConstTensorView input = file->view();
  Seconds seconds;
  seconds.reading = read_ahead(input, context->device().memory_available_bytes, bar);
  bar.phase("quantizing");
  const Result<QuantizedTensor> quantized = quantize(*context, input, *options);
  if (!quantized.ok()) return with_option(quantized.error());
  seconds.measuring = after_run.seconds();
  seconds.quantizing = clock->seconds();

  bar.phase("writing");
  const Stopwatch writing;
  const Progress progress = [&bar](std::size_t done, std::size_t total) { bar.update(done, total); };
  const bool streamed = is_standard_output(arguments.output_path);
  StandardOutput stream;
  const Status saved = streamed ? write_quantized(stream.writer(), *quantized, progress)
                                : save_quantized(arguments.output_path, *quantized, progress);
  if (!saved.ok()) return saved.error();
  seconds.writing = writing.seconds();
  bar.clear();

  const std::size_t bytes = streamed ? stream.bytes() : file_bytes(arguments.output_path);
  const Report report{arguments, *context, input, *quantized, options->non_finite, seconds, bytes};
  if (arguments.output.json) {
    print_as_json(report);
  } else {
    print_as_text(report);
  }
  return 0;
}

}  // namespace

void add_quantize(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<QuantizeArguments>();
  CLI::App* command = app.add_subcommand("quantize", "Quantize a tensor into an .npz, or a whole checkpoint");
  command->add_option("input", arguments->input, "A tensor: .npy or raw; a checkpoint: .safetensors, .gguf, folder")
      ->required()
      ->type_name("IN");
  command
      ->add_option("-o,--output", arguments->output_path,
                   "An .npz of a tensor (- for standard output); .gguf or\n.safetensors of a checkpoint")
      ->required()
      ->type_name("OUT");
  command->add_option("--dtype", arguments->dtype, "Of raw input, numbers without a header: bf16, f16, f32, f64")
      ->type_name("NAME");
  command->add_option("--shape", arguments->shape, "Of raw input")->type_name("ROWSxCOLS");
  add_scheme_arguments(*command, arguments->scheme);
  command->get_option("--format")->description(format_help("Of tensors i2, s2, i8, b3; in", false));
  command->add_option("--scale", arguments->scale, "The scale, for int2; otherwise computed")->type_name("X");
  command->add_option("--non-finite", arguments->non_finite, "NaN and infinity: reject (default) or saturate")
      ->type_name("NAME");
  command->add_option("--max-error", arguments->max_error, "Least SQNR in dB, as in 3; below it nothing is written")
      ->type_name("DB");
  command->add_flag("--validate", arguments->validate, "Look at every code and scale that was written");
  command->add_flag("--no-ready-check", arguments->no_ready_check,
                    "Of a GPU: do not ask first whether its free memory is enough");
  command->add_option("--kernel", arguments->kernel, "Run this kernel or fail")->type_name("NAME");
  add_threads_argument(*command, arguments->threads);
  command->add_option("--device", arguments->device, "cpu (default), cuda:0, ...; of checkpoints also auto")
      ->type_name("NAME");
  add_quantize_model_arguments(*command, arguments->model);
  add_output_arguments(*command, arguments->output);
  add_examples(*command, {"tern quantize weights.npy -o weights.npz",
                          "tern quantize weights.npy -o weights.npz --scheme absmax --granularity group:128",
                          "tern quantize weights.npy -o weights.npz --scheme mse --max-error 3 --json",
                          "tern quantize weights.bin --dtype bf16 --shape 64x128 -o weights.npz",
                          "tern quantize model -o model.gguf --dry-run",
                          "tern quantize model -o model.gguf --keep-embeddings f16 --report model.html",
                          "tern quantize model -o packed.safetensors --format hf_packed --match bitnet"});
  on_run(*command, session, std::move(arguments), &run);
}

}  // namespace tern::cli
