// What can be known about an output path before hours of work go into it.
#pragma once

#include <string>

#include "tern/status.h"

namespace tern::cli {

// Refuses an output that is the input, a folder, or in a folder that does not exist. Whether it can be written is
// known only when it is.
Status check_output_path(const std::string& input, const std::string& output);

std::size_t file_bytes(const std::string& path);  // 0 when it cannot be known

}  // namespace tern::cli
