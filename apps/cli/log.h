// The lines of --verbose, with the time, on standard error.
#pragma once

#include <string_view>

namespace tern::cli {

void set_verbose(bool verbose);
void log_line(std::string_view line);  // nothing without --verbose

}  // namespace tern::cli
