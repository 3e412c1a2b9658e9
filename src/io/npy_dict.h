// The Python dict literal in the header of a .npy file, read by hand: three keys, nothing evaluated.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tern/status.h"
#include "tern/tensor.h"

namespace tern::npy {

struct Dict {
  std::string_view descr;   // into the text
  bool structured = false;  // descr is a list of fields; nothing after it was read
  bool fortran_order = false;
  Shape shape;
};

// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } with the keys in any order, each once, and only white
// space around it.
Result<Dict> parse_dict(std::string_view text);

// All of `digits` as a decimal number of at most 2^63 - 1.
std::optional<std::int64_t> whole_number(std::string_view digits);

}  // namespace tern::npy
