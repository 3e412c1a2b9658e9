// -o -: the output is written to standard output, and all that a command prints goes to standard error.
#pragma once

#include <string>

#include "json.h"
#include "tern/io.h"

namespace tern::cli {

inline bool is_standard_output(const std::string& output) { return output == "-"; }

// The name of an output in messages.
std::string shown_output(const std::string& output);

// Refuses a terminal, which would show the bytes.
Status check_standard_output();

// Writes to standard output without buffering, and counts the bytes.
class StandardOutput {
 public:
  [[nodiscard]] ByteWriter writer();
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

// Prints what a command says about an output: to standard error if the output itself goes to standard output.
void print_beside(const std::string& output, const std::string& text);
void print_json_beside(const std::string& output, const Json& document);

}  // namespace tern::cli
