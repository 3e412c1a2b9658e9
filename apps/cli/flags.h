// Translates the library's field names to the command's options: where the library's errors and plans say
// WriteOptions::drop, the command says --drop.
#pragma once

#include <string>

#include "tern/status.h"

namespace tern::cli {

// The text or error with options in place of field names.
std::string with_flags(std::string text);
Error with_flags(Error error);

}  // namespace tern::cli
