// Translates config.json to the keys of GGUF: sizes, heads, norms and rotations.
#include "model/model_config.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/errors.h"
#include "io/file_error.h"
#include "tern/checkpoint.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "config.json";
using Json = nlohmann::json;

std::optional<std::uint32_t> integer(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto value = found->get<std::uint64_t>();
  if (value > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(value);
}

std::optional<float> number(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || !found->is_number()) return std::nullopt;
  const auto value = static_cast<float>(found->get<double>());
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

std::string text(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_string() ? found->get<std::string>() : std::string();
}

struct Name {
  const char* config;
  const char* gguf;  // after "<architecture>."
};
constexpr std::array kIntegers = {
    Name{"num_hidden_layers", "block_count"},
    Name{"max_position_embeddings", "context_length"},
    Name{"hidden_size", "embedding_length"},
    Name{"intermediate_size", "feed_forward_length"},
    Name{"num_attention_heads", "attention.head_count"},
    Name{"vocab_size", "vocab_size"},
};
constexpr std::array kNumbers = {
    Name{"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    Name{"rope_theta", "rope.freq_base"},
};

}  // namespace

std::string beside(const std::string& checkpoint, std::string_view file) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  return ((fs::is_directory(checkpoint, ignored) ? fs::path(checkpoint) : fs::path(checkpoint).parent_path()) / file)
      .string();
}

Result<GgufConfig> gguf_config(std::string_view config_json, std::string_view architecture, std::string_view path) {
  GgufConfig out;
  Json config = Json::object();
  if (!config_json.empty()) {
    config = Json::parse(config_json, nullptr, /*allow_exceptions=*/false);
    if (!config.is_object())
      return file_error(Code::corrupt_file, kWhere,
                        "'{}' is no JSON object; mend it, or move it away and name the "
                        "architecture (WriteOptions::architecture bitnet-b1.58, say)",
                        path);
  }
  std::string arch(architecture);
  const std::string type = text(config, "model_type");
  if (arch.empty() && type.starts_with("bitnet")) arch = "bitnet-b1.58";
  if (arch.empty())
    return file_error(
        Code::unsupported, kWhere,
        "{}, and GGUF must name the model's architecture; give it (WriteOptions::architecture bitnet-b1.58, "
        "say). Rows of "
        "q and k stay in Hugging Face's order, which llama.cpp's 'llama' does not have",
        config_json.empty() ? fmt::format("there is no '{}'", path)
        : type.empty()      ? fmt::format("'{}' has no model_type", path)
                            : fmt::format("the model_type of '{}' is '{}'", path, escaped(type, 40)));
  if (arch == "llama")
    return error(Code::unsupported, "WriteOptions::architecture",
                 "llama.cpp's 'llama' has the rows of q and k in another order than Hugging Face, and rows are not "
                 "moved here: the file would load and talk nonsense; write safetensors, or GGUF by llama.cpp's own "
                 "converter and quantize that");
  set_key(out.metadata, "general.architecture", MetaValue(arch));
  const auto set = [&](const char* key, MetaValue value) { set_key(out.metadata, arch + "." + key, std::move(value)); };
  if (config_json.empty()) {
    out.notes.emplace_back("no config.json: the model's sizes are not in the metadata, so engines will not load it");
    return out;
  }
  if (const std::string called = text(config, "_name_or_path"); !called.empty())
    set_key(out.metadata, "general.name", MetaValue(called));
  std::string missing;
  for (const Name& name : kIntegers) {
    if (const auto value = integer(config, name.config)) {
      set(name.gguf, MetaValue(*value));
    } else {
      missing += std::string(missing.empty() ? "" : ", ") + name.config;
    }
  }
  const auto heads = integer(config, "num_attention_heads"), width = integer(config, "hidden_size");
  if (const auto kv = integer(config, "num_key_value_heads"); kv || heads)
    set("attention.head_count_kv", MetaValue(kv ? *kv : *heads));
  for (const Name& name : kNumbers) {
    if (const auto value = number(config, name.config)) {
      set(name.gguf, MetaValue(*value));
    } else {
      missing += std::string(missing.empty() ? "" : ", ") + name.config;
    }
  }
  if (const auto head = integer(config, "head_dim")) {
    set("rope.dimension_count", MetaValue(*head));
  } else if (heads && width && *heads > 0) {
    set("rope.dimension_count", MetaValue(*width / *heads));
  }
  if (!missing.empty()) out.notes.push_back("config.json lacks " + missing + ", so the metadata does, too");
  if (const auto scaling = config.find("rope_scaling"); scaling != config.end() && !scaling->is_null())
    out.notes.emplace_back("rope_scaling of config.json is not converted");
  out.notes.emplace_back("the tokenizer is not converted");
  return out;
}

}  // namespace tern
