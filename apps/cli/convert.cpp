// tern convert: a model in another format or container, with the same trits and scales.
#include "write_model.h"

namespace tern::cli {
namespace {

struct ConvertArguments {
  std::string input, output_path, format, device;
  ReadArguments read;
  WriteArguments write;
  bool allow_loss = false, dry_run = false;
  std::optional<int> threads;
  OutputArguments output;
};

Result<int> run(const ConvertArguments& arguments) {
  const Result<ReadOptions> read = parse(arguments.read);
  if (!read.ok()) return read.error();
  Result<WriteOptions> write = parse(arguments.write, arguments.format, *read);
  if (!write.ok()) return write.error();
  write->quantize = false;
  write->lossy = arguments.allow_loss ? Lossy::allow : Lossy::refuse;
  return run_model({.input = arguments.input,
                    .output_path = arguments.output_path,
                    .read = *read,
                    .write = *write,
                    .threads = arguments.threads,
                    .device = "cpu",
                    .dry_run = arguments.dry_run,
                    .report_path = {},
                    .kernel_config = arguments.read.kernel_config,
                    .output = arguments.output},
                   "converting");
}

}  // namespace

void add_convert(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ConvertArguments>();
  CLI::App* command = app.add_subcommand("convert", "Write a model in another format or container");
  command->add_option("input", arguments->input, "A checkpoint: .safetensors, .gguf, index or folder")
      ->required()
      ->type_name("IN");
  command->add_option("-o,--output", arguments->output_path, "A .gguf or .safetensors file")
      ->required()
      ->type_name("OUT");
  command->add_option("--format", arguments->format, format_help("In", true))->type_name("NAME");
  command->add_flag("--allow-loss", arguments->allow_loss, "Round scales that the format cannot hold, and report it");
  command->add_flag("--dry-run", arguments->dry_run, "Show what would be done with each tensor, and stop");
  add_write_arguments(*command, arguments->write);
  add_read_arguments(*command, arguments->read);
  add_threads_argument(*command, arguments->threads);
  add_output_arguments(*command, arguments->output);
  add_examples(*command, {"tern convert model.gguf -o packed.safetensors --format hf_packed",
                          "tern convert packed.safetensors -o back.gguf --architecture bitnet-b1.58",
                          "tern convert model.gguf -o small.gguf --format tq1_0 --allow-loss --json"});
  on_run(*command, session, std::move(arguments), &run);
}

}  // namespace tern::cli
