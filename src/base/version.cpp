// The version of the library that was linked.
#include "tern/version.h"

namespace tern {
const char* version() { return TERN_VERSION; }
}  // namespace tern
