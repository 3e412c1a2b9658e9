// The layouts that models can have, as the help of the command lists them.
#pragma once

#include <string>

namespace tern::lab {

// "GGUF i2_s, tl1, ...; in safetensors i2, ..." after `before`, in lines as long as the help's may be. Of layouts that
// differ only in the order of their codes, the first has their common name; the others, and the word "(default)", are
// listed if wanted.
std::string layout_words(std::string before, bool orders_and_defaults);

}  // namespace tern::lab
