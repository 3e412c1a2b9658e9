// GGUF models in several files, as llama-gguf-split and gguf-py cut them: model-00001-of-00003.gguf and so on. Each
// part is a whole file with keys that count the parts; the first has the metadata of all.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tern/metadata.h"

namespace tern::gguf {

// What a file says about the model of which it is a part.
struct Split {
  std::int64_t part = 0;      // split.no
  std::int64_t count = 1;     // split.count; 0 or 1 if the file is the whole model
  std::int64_t tensors = -1;  // split.tensors.count, of all parts; -1 if absent
  friend bool operator==(const Split&, const Split&) = default;
};
Split split_of(const Metadata& metadata);
bool is_split_key(std::string_view key);

// "-00001-of-00003.gguf" for part 0 of 3.
std::string part_ending(std::int64_t part, std::int64_t count);
// The path without the ending of this part; empty if it does not have this ending.
std::string_view part_prefix(std::string_view path, std::int64_t part, std::int64_t count);
// The name of the first part, given the name of a later part; empty for any other name.
std::string first_part(std::string_view name);

}  // namespace tern::gguf
