// Checks of input and output paths that can be made before hours of work go into them.
#pragma once

#include <filesystem>
#include <string>

#include "tern/status.h"
#include "tern/types.h"

namespace tern::cli {

// Refuses an output that is the input, is no plain file, is in a folder that does not exist, is the file that standard
// output or standard error goes to, or does not end in `ending` (if given). Follows links. Whether the output can be
// written is known only when it is.
Status check_output_path(const std::string& input, const std::string& output, const std::string& ending = {});

// The path after following all links in it, whether or not something is there.
std::filesystem::path resolved(const std::string& path);

// Refuses what hangs or is disturbed when it is opened: pipes, devices, sockets. A file that does not exist is refused
// elsewhere.
Status check_input_path(const std::string& input, const char* option);

bool is_float(DType dtype);  // the types that can be quantized and dequantized to

std::size_t file_bytes(const std::string& path);  // 0 if it cannot be determined

}  // namespace tern::cli
