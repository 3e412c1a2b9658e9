// Checks of input and output paths that can be made before hours of work go into them.
#include "file_paths.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <system_error>

#include "standard_output.h"

namespace tern::cli {
namespace {

namespace fs = std::filesystem;

Error bad_output(Code code, std::string message) { return {code, std::move(message), "--output"}; }

// "a pipe", for example; empty for a file, for a folder, or if nothing is there.
std::string_view no_file(fs::file_type type) {
  switch (type) {
    case fs::file_type::fifo: return "a pipe";
    case fs::file_type::socket: return "a socket";
    case fs::file_type::character:
    case fs::file_type::block: return "a device";
    default: return {};
  }
}

// Whether standard output or standard error goes to that file. What they print would be lost when the file is replaced.
bool is_printed_to(const std::string& path) {
  struct stat file {
  }, stream{};
  if (::stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) return false;
  for (const int number : {STDOUT_FILENO, STDERR_FILENO})
    if (::fstat(number, &stream) == 0 && stream.st_dev == file.st_dev && stream.st_ino == file.st_ino) return true;
  return false;
}

}  // namespace

fs::path resolved(const std::string& path) {
  std::error_code failure;
  fs::path at = path;
  for (int links = 0; links < 40 && fs::is_symlink(at, failure); ++links) {
    const fs::path next = fs::read_symlink(at, failure);
    if (failure) break;
    at = at.parent_path() / next;
  }
  return fs::weakly_canonical(fs::absolute(at, failure), failure);
}

Status check_output_path(const std::string& input, const std::string& output, const std::string& ending) {
  std::error_code ignored;
  if (output.empty()) return bad_output(Code::invalid_argument, "the output path is empty");
  if (is_standard_output(output)) return check_standard_output();
  if (fs::equivalent(input, output, ignored))
    return bad_output(Code::invalid_argument, fmt::format("'{}' is the input; choose another output", output));
  if (fs::is_directory(output, ignored))
    return bad_output(Code::io_error, fmt::format("'{}' is a folder; name a file in it", output));
  if (const std::string_view what = no_file(fs::status(output, ignored).type()); !what.empty())
    return bad_output(Code::io_error, fmt::format("'{}' is {}, which cannot be replaced as a whole; name a file{}",
                                                  output, what, ending.empty() ? "" : ", or - for standard output"));
  if (is_printed_to(output))
    return bad_output(Code::invalid_argument,
                      fmt::format("'{}' is the file that standard output or standard error goes to; what is printed "
                                  "would be lost with it, so name another one",
                                  output));
  const fs::path folder = (fs::is_symlink(output, ignored) ? resolved(output) : fs::path(output)).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, ignored))
    return bad_output(Code::io_error, fmt::format("'{}' is not a folder that exists", folder.string()));
  if (!output.ends_with(ending))
    return bad_output(Code::invalid_argument,
                      fmt::format("'{}': one tensor is written as {}; name it so, as in '{}'", output, ending,
                                  fs::path(output).replace_extension(ending).string()));
  return {};
}

Status check_input_path(const std::string& input, const char* option) {
  std::error_code ignored;
  const std::string_view what = no_file(fs::status(input, ignored).type());
  if (what.empty()) return {};
  return Error{Code::io_error,
               fmt::format("'{}' is {}, not a regular file; write what it gives to a file first", input, what), option};
}

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::f64 || dtype == DType::bf16;
}

std::size_t file_bytes(const std::string& path) {
  std::error_code failure;
  const auto bytes = fs::file_size(path, failure);
  return failure ? 0 : static_cast<std::size_t>(bytes);
}

}  // namespace tern::cli
