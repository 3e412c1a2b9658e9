// What can be known about inputs and outputs before hours of work go into them.
#include "file_paths.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace tern::cli {

Status check_output_path(const std::string& input, const std::string& output, const std::string& ending) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (output.empty()) return Error{Code::invalid_argument, "the output path is empty", "--output"};
  if (fs::equivalent(input, output, ignored))
    return Error{Code::invalid_argument, fmt::format("'{}' is the input; choose another output", output), "--output"};
  if (fs::is_directory(output, ignored))
    return Error{Code::io_error, fmt::format("'{}' is a folder; name a file in it", output), "--output"};
  const fs::path folder = fs::path(output).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, ignored))
    return Error{Code::io_error, fmt::format("'{}' is not a folder that exists", folder.string()), "--output"};
  if (!output.ends_with(ending))
    return Error{Code::invalid_argument,
                 fmt::format("'{}': one tensor is written as {}; name it so, as in '{}'", output, ending,
                             fs::path(output).replace_extension(ending).string()),
                 "--output"};
  return {};
}

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::f64 || dtype == DType::bf16;
}

std::size_t file_bytes(const std::string& path) {
  std::error_code failure;
  const auto bytes = std::filesystem::file_size(path, failure);
  return failure ? 0 : static_cast<std::size_t>(bytes);
}

}  // namespace tern::cli
