// What can be known about inputs and outputs before hours of work go into them.
#pragma once

#include <string>

#include "tern/status.h"
#include "tern/types.h"

namespace tern::cli {

// Refuses an output that is the input, a folder, in a folder that does not exist, or not named by what is in it: with
// `ending` at its end, where one is given. Whether it can be written is known only when it is.
Status check_output_path(const std::string& input, const std::string& output, const std::string& ending = {});

bool is_float(DType dtype);  // what is quantized, and comes back

std::size_t file_bytes(const std::string& path);  // 0 when it cannot be known

}  // namespace tern::cli
