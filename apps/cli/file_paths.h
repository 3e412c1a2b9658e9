// What can be known about inputs and outputs before hours of work go into them.
#pragma once

#include <filesystem>
#include <string>

#include "tern/status.h"
#include "tern/types.h"

namespace tern::cli {

// Refuses an output that is the input, no plain file, in a folder that does not exist, the file that standard output
// goes to, or not named by what is in it: with `ending` at its end, where one is given. Links are followed. Whether it
// can be written is known only when it is.
Status check_output_path(const std::string& input, const std::string& output, const std::string& ending = {});

// Where a path leads when all links in it are followed, whether there is something or not.
std::filesystem::path resolved(const std::string& path);

// Refuses what opening would hang on or disturb: pipes, devices, sockets. What is not there is for others to refuse.
Status check_input_path(const std::string& input, const char* option);

bool is_float(DType dtype);  // what is quantized, and comes back

std::size_t file_bytes(const std::string& path);  // 0 when it cannot be known

}  // namespace tern::cli
