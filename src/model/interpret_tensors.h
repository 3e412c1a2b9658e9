// Recognises ternary and coded weights of a checkpoint, and their layout, from types, names and metadata.
#pragma once

#include <string>
#include <vector>

#include "tern/model.h"

namespace tern {

// All tensors in the order of the checkpoint, without those that hold scales of others. `config` is the text of
// config.json, or empty.
Result<std::vector<ModelTensor>> interpret_tensors(const Checkpoint& checkpoint, const std::string& config,
                                                   const ReadOptions& options);

}  // namespace tern
