// The options of the commands that read and write whole models, and their parsing.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tern/model.h"

namespace tern::cli {

// What a file may leave out about itself.
struct ReadArguments {
  std::string variant;        // of i2_s
  std::string weight_scale;   // of hf_packed
  std::string kernel_config;  // of tl1 and tl2
  std::vector<std::string> gguf_types;
};
void add_read_arguments(CLI::App& command, ReadArguments& arguments);
Result<ReadOptions> parse(const ReadArguments& arguments);

// How the output is written.
struct WriteArguments {
  std::string container;
  std::string drop;
  std::string embeddings;
  std::string architecture;
  bool later_tl2 = false;
};
void add_write_arguments(CLI::App& command, WriteArguments& arguments);
// The help of --format: the formats of models after `before`, with the orders of i2_s and the defaults or without.
std::string format_help(std::string_view before, bool orders_and_defaults);
// `format` is the value of --format, or empty; the tiles are taken from `read`.
Result<WriteOptions> parse(const WriteArguments& arguments, const std::string& format, const ReadOptions& read);

// Whether a path is a checkpoint rather than a tensor: a folder, an index, or a file that starts like one.
bool is_checkpoint(const std::string& path);

}  // namespace tern::cli
