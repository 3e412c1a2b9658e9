// -o -: the output is a stream on standard output, and all that a command prints goes to standard error.
#pragma once

#include <string>

#include "json.h"
#include "tern/io.h"

namespace tern::cli {

inline bool is_standard_output(const std::string& output) { return output == "-"; }

// An output as it is shown.
std::string shown_output(const std::string& output);

// Refuses a terminal, which would show the bytes.
Status check_standard_output();

// Writes to standard output past all buffers, and counts.
class StandardOutput {
 public:
  [[nodiscard]] ByteWriter writer();
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

// What a command prints of an output: on standard error where the output takes standard output.
void print_beside(const std::string& output, const std::string& text);
void print_json_beside(const std::string& output, const Json& document);

}  // namespace tern::cli
