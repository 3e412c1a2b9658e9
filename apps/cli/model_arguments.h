// The options of the commands that read and write whole models, and what becomes of them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tern/model.h"

namespace tern::cli {

// What a file may not say of itself.
struct ReadArguments {
  std::string variant;        // of i2_s
  std::string weight_scale;   // of hf_packed
  std::string kernel_config;  // of tl1 and tl2
  std::vector<std::string> gguf_types;
};
void add_read_arguments(CLI::App& command, ReadArguments& arguments);
Result<ReadOptions> parse(const ReadArguments& arguments);

// What is written.
struct WriteArguments {
  std::string container;
  std::string drop;
  std::string embeddings;
  std::string architecture;
  bool later_tl2 = false;
};
void add_write_arguments(CLI::App& command, WriteArguments& arguments);
// `format` is the word of --format, or empty; tiles are those that parse(ReadArguments) read.
Result<WriteOptions> parse(const WriteArguments& arguments, const std::string& format, const ReadOptions& read);

// Whether a path is a checkpoint and no tensor: a folder, an index, or a file that begins as one.
bool is_checkpoint(const std::string& path);

}  // namespace tern::cli
