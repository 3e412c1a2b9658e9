// What goes to standard error: texts, and the lines of --verbose with the time. What cannot be written there is lost:
// there is nobody left to tell, and the exit code says how it went.
#pragma once

#include <string>
#include <string_view>

namespace tern::cli {

void say(const std::string& text);  // as it is
void set_verbose(bool verbose);
void log_line(std::string_view line);  // nothing without --verbose

}  // namespace tern::cli
