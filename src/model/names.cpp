// Maps the names of Llama's and BitNet's tensors between Hugging Face and GGUF.
#include <array>
#include <utility>

#include "tern/model.h"

namespace tern {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;  // Hugging Face, GGUF

constexpr std::array kWhole = {
    NamePair{"model.embed_tokens", "token_embd"},
    NamePair{"model.norm", "output_norm"},
    NamePair{"lm_head", "output"},
};

// Names within a layer, after "model.layers.3." and "blk.3.". If Hugging Face has two spellings, the first is written.
constexpr std::array kOfLayer = {
    NamePair{"self_attn.q_proj", "attn_q"},
    NamePair{"self_attn.k_proj", "attn_k"},
    NamePair{"self_attn.v_proj", "attn_v"},
    NamePair{"self_attn.o_proj", "attn_output"},
    NamePair{"self_attn.attn_sub_norm", "attn_sub_norm"},
    NamePair{"self_attn.inner_attn_ln", "attn_sub_norm"},  // BitNet as 1bitLLM published it
    NamePair{"mlp.gate_proj", "ffn_gate"},
    NamePair{"mlp.up_proj", "ffn_up"},
    NamePair{"mlp.down_proj", "ffn_down"},
    NamePair{"mlp.ffn_sub_norm", "ffn_sub_norm"},
    NamePair{"mlp.ffn_layernorm", "ffn_sub_norm"},  // BitNet as 1bitLLM published it
    NamePair{"input_layernorm", "attn_norm"},
    NamePair{"post_attention_layernorm", "ffn_norm"},
};
constexpr std::string_view kHfLayer = "model.layers.", kGgufLayer = "blk.";

// ".weight" or ".bias" if the name ends with it, otherwise empty.
std::string_view ending(std::string_view name) {
  for (const std::string_view end : {".weight", ".bias"})
    if (name.ends_with(end)) return name.substr(name.size() - end.size());
  return {};
}

struct Mapping {
  std::string_view from_layer, to_layer;
  bool to_gguf;
  [[nodiscard]] std::string_view from(const NamePair& p) const { return to_gguf ? p.first : p.second; }
  [[nodiscard]] std::string_view to(const NamePair& p) const { return to_gguf ? p.second : p.first; }
};

std::string mapped(std::string_view name, const Mapping& map) {
  const std::string_view end = ending(name);
  if (end.empty()) return {};
  std::string_view stem = name.substr(0, name.size() - end.size());
  for (const NamePair& pair : kWhole)
    if (stem == map.from(pair)) return std::string(map.to(pair)).append(end);
  if (!stem.starts_with(map.from_layer)) return {};
  stem.remove_prefix(map.from_layer.size());
  const std::size_t dot = stem.find('.');
  if (dot == std::string_view::npos || dot == 0 || dot > 9) return {};
  const std::string_view layer = stem.substr(0, dot);
  if (layer.find_first_not_of("0123456789") != std::string_view::npos) return {};
  for (const NamePair& pair : kOfLayer)
    if (stem.substr(dot + 1) == map.from(pair))
      return std::string(map.to_layer).append(layer).append(".").append(map.to(pair)).append(end);
  return {};
}

}  // namespace

std::string gguf_name(std::string_view hf_name) { return mapped(hf_name, {kHfLayer, kGgufLayer, true}); }
std::string hf_name(std::string_view gguf_name) { return mapped(gguf_name, {kGgufLayer, kHfLayer, false}); }

}  // namespace tern
