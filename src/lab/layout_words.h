// The layouts of a container, as the help of the command lists them.
#pragma once

#include <string>

#include "tern/checkpoint.h"

namespace tern::lab {

// "i2_s, tl1, ...": of layouts that differ only in the order of their codes, the first has their common name. The
// others, and the word "(default)", are listed if wanted.
std::string layout_words(Container container, bool orders_and_default);

}  // namespace tern::lab
