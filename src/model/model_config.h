// Translates config.json of a Hugging Face model into the keys of GGUF.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tern/metadata.h"
#include "tern/status.h"

namespace tern {

struct GgufConfig {
  Metadata metadata;               // general.architecture first
  std::vector<std::string> notes;  // what was left out
};

// `architecture` is what the caller asked for, or empty. BitNet models are "bitnet-b1.58". For others the caller must
// name it, because a guess could be wrong unnoticed: llama.cpp's "llama" has the rows of q and k in another order.
// Errors name the file as `path`.
Result<GgufConfig> gguf_config(std::string_view config_json, std::string_view architecture,
                               std::string_view path = "config.json");

// The path of a file in a checkpoint's folder.
std::string beside(const std::string& checkpoint, std::string_view file);

}  // namespace tern
