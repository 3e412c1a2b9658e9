// Whether the environment's overrides can apply here at all, for commands that choose no kernel.
#pragma once

#include "tern/status.h"

namespace tern::lab {

// Refuses a malformed variable, a level that no device of this machine has, and a kernel that does not exist.
Status check_environment();

}  // namespace tern::lab
