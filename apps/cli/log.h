// Writes to standard error: plain text, and the lines of --verbose with the time. A failure to write there is ignored:
// nobody is left to report it to, and the exit code still tells the outcome.
#pragma once

#include <string>
#include <string_view>

namespace tern::cli {

void say(const std::string& text);  // unchanged
void set_verbose(bool verbose);
void log_line(std::string_view line);  // nothing without --verbose

}  // namespace tern::cli
