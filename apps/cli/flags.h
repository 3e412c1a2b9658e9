// The command's names for the library's fields: the library's errors and plans speak of WriteOptions::drop, the command
// of --drop.
#pragma once

#include <string>

#include "tern/status.h"

namespace tern::cli {

// A sentence of the library in the command's words.
std::string with_flags(std::string text);
Error with_flags(Error error);

}  // namespace tern::cli
