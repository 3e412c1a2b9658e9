// Declares and parses the options of the commands that read and write whole models.
#include "model_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "file_paths.h"
#include "lab/layout_words.h"
#include "table.h"

namespace tern::cli {
namespace {

constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

Error bad(std::string where, std::string message) {
  return {Code::invalid_argument, std::move(message), std::move(where)};
}

Result<std::vector<KernelTiles>> read_tiles(const std::string& path) {
  if (Status file = check_input_path(path, "--kernel-config"); !file.ok()) return file.error();
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxConfigBytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad())
    return Error{Code::io_error, fmt::format("cannot read '{}': {}", path, std::generic_category().message(errno)),
                 "--kernel-config"};
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxConfigBytes) return bad("--kernel-config", fmt::format("'{}' is longer than 1 MiB", path));
  Result<std::vector<KernelTiles>> tiles = parse_kernel_config(text);
  if (!tiles.ok()) return Error{tiles.code(), fmt::format("'{}': {}", path, tiles.error().message), "--kernel-config"};
  return tiles;
}

}  // namespace

void add_read_arguments(CLI::App& command, ReadArguments& arguments) {
  command.add_option("--variant", arguments.variant, "Of i2_s, if the file does not say: x86_128, arm_64, 1x4")
      ->type_name("NAME");
  command
      .add_option("--weight-scale", arguments.weight_scale,
                  "Of hf_packed, if the file does not say:\nmultiplies or divides")
      ->type_name("WORD");
  command.add_option("--kernel-config", arguments.kernel_config, "kernel_config.ini: the tiles of tl1 and tl2")
      ->type_name("FILE");
  command.add_option("--gguf-type", arguments.gguf_types, "What type id 39 or 42 means, if asked: TL2, MXFP4, ...")
      ->allow_extra_args(false)
      ->type_name("NAME");
}

Result<ReadOptions> parse(const ReadArguments& arguments) {
  ReadOptions options;
  if (!arguments.variant.empty()) {
    const Result<Layout> layout = parse_layout("i2_s." + arguments.variant);
    if (!layout.ok())
      return bad("--variant", fmt::format("'{}' is not one of x86_128, arm_64, 1x4", arguments.variant));
    options.i2_s = *layout;
  }
  if (!arguments.weight_scale.empty()) {
    if (arguments.weight_scale != "multiplies" && arguments.weight_scale != "divides")
      return bad("--weight-scale", fmt::format("'{}' is not multiplies or divides", arguments.weight_scale));
    options.weight_scale = arguments.weight_scale == "divides" ? WeightScale::divides : WeightScale::multiplies;
  }
  if (!arguments.kernel_config.empty()) {
    Result<std::vector<KernelTiles>> tiles = read_tiles(arguments.kernel_config);
    if (!tiles.ok()) return tiles.error();
    options.tiles = *std::move(tiles);
  }
  for (const std::string& word : arguments.gguf_types) {
    constexpr std::array kTypes = {StoredType::tl2, StoredType::mxfp4, StoredType::q2_0, StoredType::q2_0_g128};
    const Result<StoredType> type = parse_stored_type(word);
    if (!type.ok() || std::find(kTypes.begin(), kTypes.end(), *type) == kTypes.end())
      return bad("--gguf-type",
                 fmt::format("'{}' is not TL2, MXFP4, Q2_0 or Q2_0_G128, the meanings of ids 39 and 42", word));
    options.open.gguf_types.push_back(*type);
  }
  return options;
}

std::string format_help(std::string_view before, bool orders_and_defaults) {
  const auto words = [=](Container container) { return lab::layout_words(container, orders_and_defaults); };
  constexpr std::size_t kColumns = 64;  // what the options leave of a line
  return fmt::format("{}", fmt::join(wrap(fmt::format("{} GGUF {}; in safetensors {}", before, words(Container::gguf),
                                                      words(Container::safetensors)),
                                          kColumns),
                                     "\n"));
}

void add_write_arguments(CLI::App& command, WriteArguments& arguments) {
  command.add_option("--container", arguments.container, "gguf or safetensors; otherwise by the output's name")
      ->type_name("NAME");
  command.add_option("--drop", arguments.drop, "Leave out tensors with this in their name")->type_name("REGEX");
  command
      .add_option("--keep-embeddings", arguments.embeddings, "Embeddings and head as f16, bf16, q8_0, q4_0; else as is")
      ->type_name("DTYPE");
  command.add_option("--architecture", arguments.architecture, "general.architecture of GGUF; else by config.json")
      ->type_name("NAME");
  command.add_flag("--later-tl2", arguments.later_tl2, "Write tl2 as type 42, as bitnet.cpp's later fork does");
}

Result<WriteOptions> parse(const WriteArguments& arguments, const std::string& format, const ReadOptions& read) {
  WriteOptions options;
  if (!arguments.container.empty()) {
    const Result<Container> container = parse_container(arguments.container);
    if (!container.ok()) return bad("--container", container.error().message);
    options.container = *container;
  }
  if (!format.empty()) {
    const Result<Layout> layout = parse_layout(format == "i2_s" ? "i2_s.x86_128" : format);
    if (!layout.ok()) return Error{layout.code(), layout.error().message, "--format"};
    options.layout = *layout;
  }
  if (!arguments.embeddings.empty()) {
    constexpr std::array kTypes = {StoredType::f16, StoredType::bf16, StoredType::q8_0, StoredType::q4_0};
    const Result<StoredType> type = parse_stored_type(arguments.embeddings);
    if (!type.ok() || std::find(kTypes.begin(), kTypes.end(), *type) == kTypes.end())
      return bad("--keep-embeddings", fmt::format("'{}' is not f16, bf16, q8_0 or q4_0", arguments.embeddings));
    options.embeddings = *type;
  }
  options.drop = arguments.drop;
  options.architecture = arguments.architecture;
  options.tiles = read.tiles;
  options.tl2_id = arguments.later_tl2 ? 42 : 39;
  return options;
}

bool is_checkpoint(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return true;
  for (const char* end : {".safetensors", ".gguf", ".index.json"})
    if (path.ends_with(end)) return true;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;  // opening a pipe would wait for a writer
  std::array<char, 9> first{};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(first.data(), first.size())) return false;
  return std::string_view(first.data(), 4) == "GGUF" || (first[8] == '{' && first[6] == 0 && first[7] == 0);
}

}  // namespace tern::cli
