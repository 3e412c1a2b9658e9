// Text that others chose, such as the names of files, as one line that a terminal shows and does not obey.
#pragma once

#include <string>
#include <string_view>

#include "tern/export.h"

namespace tern {

// Control characters, marks that turn the direction of writing and bytes that are not UTF-8 become \xNN, all else stays
// as it is. Paths in the errors of the library went through this; who prints a path should let it, too.
TERN_API std::string one_line(std::string_view text);

}  // namespace tern
