// What quantize and convert share: open, plan, show the plan, write with a progress bar, summarize.
#pragma once

#include <optional>
#include <string>

#include "arguments.h"
#include "model_arguments.h"

namespace tern::cli {

struct ModelRun {
  std::string input;
  std::string output_path;
  ReadOptions read;
  WriteOptions write;
  std::optional<int> threads;
  std::string device;  // or "auto": a GPU where there is one
  bool dry_run = false;
  std::string report_path;         // of an HTML page; empty: none
  std::string kernel_config = {};  // a file that was read for `read`; empty: none
  OutputArguments output;
};
Result<int> run_model(ModelRun run, const char* phase);

// An error of the library, rewritten in terms of the option that it is about.
Error with_option(Error error);

// The options of a checkpoint that tern quantize has beside those of a tensor.
struct QuantizeModelArguments {
  ReadArguments read;
  WriteArguments write;
  std::string include, exclude, match, report;
  bool dry_run = false;
};
void add_quantize_model_arguments(CLI::App& command, QuantizeModelArguments& arguments);

// The options of tern quantize that concern tensors and checkpoints alike.
struct QuantizeWords {
  std::string input, output_path, scheme, granularity, format, non_finite, kernel, device;
  std::optional<int> threads;
  OutputArguments output;
};
Result<int> quantize_model(const QuantizeWords& words, const QuantizeModelArguments& arguments);

}  // namespace tern::cli
