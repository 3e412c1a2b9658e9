// -o -: the output is written to standard output, and all that a command prints goes to standard error.
#include "standard_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "log.h"
#include "tern/text.h"

namespace tern::cli {

std::string shown_output(const std::string& output) {
  return is_standard_output(output) ? "standard output" : one_line(output);
}

Status check_standard_output() {
  if (isatty(STDOUT_FILENO) != 1) return {};
  return Error{Code::invalid_argument,
               "'-' is standard output, which is a terminal; redirect it to a file or a pipe, or name a file",
               "--output"};
}

ByteWriter StandardOutput::writer() {
  return [this](std::span<const std::uint8_t> bytes) -> Status {
    while (!bytes.empty()) {
      const ssize_t taken = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
      if (taken < 0 && errno == EINTR) continue;
      if (taken <= 0)
        return Error{
            Code::io_error,
            fmt::format("cannot write standard output: {}", std::generic_category().message(taken < 0 ? errno : EIO)),
            "--output"};
      bytes_ += static_cast<std::size_t>(taken);
      bytes = bytes.subspan(static_cast<std::size_t>(taken));
    }
    return {};
  };
}

void print_beside(const std::string& output, const std::string& text) {
  if (is_standard_output(output)) {
    say(text);
  } else {
    fmt::print("{}", text);
  }
}

void print_json_beside(const std::string& output, const Json& document) {
  print_beside(output, to_text(document) + "\n");
}

}  // namespace tern::cli
