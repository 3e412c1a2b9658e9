// tern dequantize: an .npz of codes and scales back to a tensor, .npy or raw.
#include <fmt/format.h>

#include <filesystem>

#include "arguments.h"
#include "file_paths.h"
#include "json.h"
#include "progress_bar.h"
#include "run_clock.h"
#include "standard_output.h"
#include "stopwatch.h"
#include "table.h"
#include "tern/io.h"
#include "tern/quantize.h"
#include "tern/text.h"
#include "units.h"

namespace tern::cli {
namespace {

struct DequantizeArguments {
  std::string input;
  std::string output_path;
  std::string dtype = "f32";
  std::optional<int> threads;
  std::string device;
  OutputArguments output;
};

struct Report {
  const DequantizeArguments& arguments;
  const Context& context;
  const QuantizedTensor& quantized;
  const Tensor& tensor;
  std::string kernel;
  double reading = 0;
  double dequantizing = 0;
  double writing = 0;

  [[nodiscard]] std::size_t quantized_bytes() const { return quantized.codes.bytes() + quantized.scales.bytes(); }
  [[nodiscard]] double gb_per_s() const {
    return static_cast<double>(quantized_bytes() + tensor.bytes()) / dequantizing / 1e9;
  }
};

void print_as_json(const Report& r) {
  print_json_beside(r.arguments.output_path,
                    {{"input",
                      {{"path", r.arguments.input},
                       {"codes_bytes", r.quantized.codes.bytes()},
                       {"scales_bytes", r.quantized.scales.bytes()}}},
                     {"output",
                      {{"path", r.arguments.output_path},
                       {"layout", r.tensor.dtype() == DType::bf16 ? "raw" : "npy"},
                       {"dtype", name(r.tensor.dtype())},
                       {"shape", to_json(r.tensor.shape())},
                       {"bytes", r.tensor.bytes()}}},
                     {"scheme", name(r.quantized.scheme)},
                     {"granularity", name(r.quantized.granularity)},
                     {"format", name(r.quantized.format)},
                     {"kernel", r.kernel},
                     {"device", name(r.context.device().id)},
                     {"threads", r.context.threads()},
                     {"seconds", {{"reading", r.reading}, {"dequantizing", r.dequantizing}, {"writing", r.writing}}},
                     {"gb_per_s", r.gb_per_s()}});
}

void print_as_text(const Report& r) {
  const std::string head =
      fmt::format("{}: {} by {} in {}\n{}: {} {}\n\n", one_line(r.arguments.input), name(r.quantized.scheme),
                  name(r.quantized.granularity), name(r.quantized.format), shown_output(r.arguments.output_path),
                  name(r.tensor.dtype()), name(r.tensor.shape()));
  Table facts({}, 2);
  facts.add({"size", fmt::format("{} -> {}", human_bytes(r.quantized_bytes()), human_bytes(r.tensor.bytes()))});
  facts.add({"kernel", fmt::format("{} on {}, {}", r.kernel, name(r.context.device().id),
                                   counted(r.context.threads(), "thread"))});
  facts.add({"time",
             fmt::format("{} reading, {} dequantizing ({}), {} writing", human_seconds(r.reading),
                         human_seconds(r.dequantizing), gigabytes_per_second(r.gb_per_s()), human_seconds(r.writing))});
  print_beside(r.arguments.output_path, head + facts.str());
}

Status save(const Tensor& tensor, bool raw, const std::string& output, const Progress& progress) {
  if (is_standard_output(output)) {
    StandardOutput stream;
    return raw ? write_raw(stream.writer(), tensor.view(), progress)
               : write_npy(stream.writer(), tensor.view(), progress);
  }
  return raw ? save_raw(output, tensor.view(), progress) : save_npy(output, tensor.view(), progress);
}

Result<int> run(const DequantizeArguments& arguments) {
  const Result<DType> dtype = parse_dtype(arguments.dtype);
  if (!dtype.ok()) return dtype.error();
  if (!is_float(*dtype))
    return Error{Code::invalid_argument,
                 fmt::format("'{}' holds no fractions; take f32, f16, f64 or bf16", arguments.dtype), "--dtype"};
  const bool raw = *dtype == DType::bf16;
  for (const char* ending : {".npy", ".npz", ".gguf", ".safetensors"})
    if (raw && arguments.output_path.ends_with(ending))
      return Error{
          Code::invalid_argument,
          fmt::format("'{}': bf16 is written raw, without a header, so it cannot be a {}; choose another name, as in "
                      "'{}', or another --dtype",
                      arguments.output_path, ending,
                      std::filesystem::path(arguments.output_path).replace_extension(".bin").string()),
          "--output"};
  if (Status path = check_output_path(arguments.input, arguments.output_path, raw ? "" : ".npy"); !path.ok())
    return path.error();
  ProgressBar bar(!arguments.output.json && !arguments.output.verbose);
  const auto clock = std::make_shared<RunClock>("ternary_dequantize");
  const Result<Context> context = open_context(arguments.threads, arguments.device, clock);
  if (!context.ok()) return context.error();

  bar.phase("reading");
  Stopwatch watch;
  const Result<QuantizedTensor> quantized = load_quantized(arguments.input);
  if (!quantized.ok()) return quantized.error();
  const double reading = watch.seconds();

  bar.phase("dequantizing");
  const Result<Tensor> tensor = dequantize(*context, *quantized, *dtype);
  if (!tensor.ok()) return tensor.error();

  bar.phase("writing");
  watch.restart();
  const Progress progress = [&bar](std::size_t done, std::size_t total) { bar.update(done, total); };
  const Status saved = save(*tensor, raw, arguments.output_path, progress);
  if (!saved.ok()) return saved.error();
  const double writing = watch.seconds();
  bar.clear();

  const Report report{arguments, *context, *quantized, *tensor, clock->kernel(), reading, clock->seconds(), writing};
  if (arguments.output.json) {
    print_as_json(report);
  } else {
    print_as_text(report);
  }
  return 0;
}

}  // namespace

void add_dequantize(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<DequantizeArguments>();
  CLI::App* command = app.add_subcommand("dequantize", "Turn an .npz of codes and scales back into a tensor");
  command->add_option("input", arguments->input, "What tern quantize wrote")->required()->type_name("IN.npz");
  command
      ->add_option("-o,--output", arguments->output_path, "A .npy file; of bf16 any other name; - for standard output")
      ->required()
      ->type_name("OUT");
  command->add_option("--dtype", arguments->dtype, "f32 (default), f16 or f64 as .npy; bf16 raw, without a header")
      ->type_name("NAME");
  add_threads_argument(*command, arguments->threads);
  add_device_argument(*command, arguments->device);
  add_output_arguments(*command, arguments->output);
  add_examples(*command, {"tern dequantize weights.npz -o restored.npy",
                          "tern dequantize weights.npz -o restored.npy --threads 1 --json",
                          "tern dequantize weights.npz -o restored.bin --dtype bf16"});
  on_run(*command, session, std::move(arguments), &run);
}

}  // namespace tern::cli
