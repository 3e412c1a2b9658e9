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
  std::string device;  // or "auto": a GPU if there is one
  bool dry_run = false;
  std::string report_path;         // an HTML page; empty: none
  std::string kernel_config = {};  // the file that `read` was parsed from; empty: none
  OutputArguments output;
};
Result<int> run_model(ModelRun run, const char* phase);

// An error of the library, with the option that it is about as its `where`.
Error with_option(Error error);

// The options of tern quantize that are only for checkpoints.
struct QuantizeModelArguments {
  ReadArguments read;
  WriteArguments write;
  std::string include, exclude, match, report;
  bool dry_run = false;
};
void add_quantize_model_arguments(CLI::App& command, QuantizeModelArguments& arguments);

// The options of tern quantize for both tensors and checkpoints.
struct QuantizeWords {
  std::string input, output_path, scheme, granularity, format, non_finite, kernel, device;
  std::optional<int> threads;
  OutputArguments output;
};
Result<int> quantize_model(const QuantizeWords& words, const QuantizeModelArguments& arguments);

}  // namespace tern::cli
