// Writes a BitNet-b1.58 checkpoint as Hugging Face has it: real names, chosen sizes, random weights.
#pragma once

#include <cmath>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/half.h"
#include "tern/checkpoint.h"

namespace tern {

struct BitnetSizes {
  std::int64_t layers = 2, hidden = 256, kv = 128, ffn = 768, vocab = 320;
  static BitnetSizes b1_58_2b() { return {30, 2560, 640, 6912, 128256}; }
};

struct BitnetTensor {
  std::string name;
  std::vector<std::int64_t> shape;
};

inline std::vector<BitnetTensor> bitnet_tensors(const BitnetSizes& s) {
  std::vector<BitnetTensor> out = {{"model.embed_tokens.weight", {s.vocab, s.hidden}}};
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    out.push_back({layer + "input_layernorm.weight", {s.hidden}});
    out.push_back({layer + "mlp.down_proj.weight", {s.hidden, s.ffn}});
    out.push_back({layer + "mlp.ffn_sub_norm.weight", {s.ffn}});
    out.push_back({layer + "mlp.gate_proj.weight", {s.ffn, s.hidden}});
    out.push_back({layer + "mlp.up_proj.weight", {s.ffn, s.hidden}});
    out.push_back({layer + "post_attention_layernorm.weight", {s.hidden}});
    out.push_back({layer + "self_attn.attn_sub_norm.weight", {s.hidden}});
    out.push_back({layer + "self_attn.k_proj.weight", {s.kv, s.hidden}});
    out.push_back({layer + "self_attn.o_proj.weight", {s.hidden, s.hidden}});
    out.push_back({layer + "self_attn.q_proj.weight", {s.hidden, s.hidden}});
    out.push_back({layer + "self_attn.v_proj.weight", {s.kv, s.hidden}});
  }
  out.push_back({"model.norm.weight", {s.hidden}});
  return out;
}

inline std::string bitnet_config(const BitnetSizes& s) {
  const std::int64_t heads = s.hidden / 128 > 0 ? s.hidden / 128 : 1;
  return R"({"architectures": ["BitNetForCausalLM"], "model_type": "bitnet", "hidden_size": )" +
         std::to_string(s.hidden) + R"(, "intermediate_size": )" + std::to_string(s.ffn) +
         R"(, "num_hidden_layers": )" + std::to_string(s.layers) + R"(, "num_attention_heads": )" +
         std::to_string(heads) + R"(, "num_key_value_heads": 1, "vocab_size": )" + std::to_string(s.vocab) +
         R"(, "max_position_embeddings": 4096, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
 "quantization_config": {"linear_class": "autobitlinear", "quant_method": "bitnet"}})";
}

// BF16 weights about 0.02 in size, norms about 1, in one .safetensors file. The same sizes give the same file.
inline Status write_bitnet_checkpoint(const std::string& path, const BitnetSizes& sizes) {
  std::vector<StoredTensor> tensors;
  for (const BitnetTensor& t : bitnet_tensors(sizes))
    tensors.push_back({.name = t.name, .type = StoredType::bf16, .shape = t.shape});
  auto writer = CheckpointWriter::create(path, Container::safetensors, {{"format", MetaValue("pt")}}, tensors);
  if (!writer.ok()) return std::move(writer).error();
  std::mt19937 random(1);
  // Weights are picked from a table of values, because a large file would take minutes otherwise.
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> table(std::size_t{1} << 16);
  for (std::uint16_t& v : table) v = half::to_bf16(normal(random) * 0.02F);
  std::vector<std::uint16_t> piece;
  for (const StoredTensor& t : std::vector<StoredTensor>(writer->tensors().begin(), writer->tensors().end())) {
    const bool norm = t.shape.size() == 1;
    for (std::size_t left = t.bytes / 2; left > 0; left -= piece.size()) {
      piece.resize(std::min(left, std::size_t{1} << 20));
      for (std::size_t i = 0; i < piece.size(); i += 2) {
        const auto bits = static_cast<std::uint32_t>(random());
        piece[i] = norm ? half::to_bf16(1.0F + static_cast<float>(bits % 64) / 64) : table[bits & 0xFFFFU];
        if (i + 1 < piece.size()) piece[i + 1] = norm ? half::to_bf16(0.5F) : table[bits >> 16];
      }
      Status written = writer->write({reinterpret_cast<const std::uint8_t*>(piece.data()), piece.size() * 2});
      if (!written.ok()) return written;
    }
  }
  return writer->finish();
}

// The same as a folder with model.safetensors and config.json.
inline Status write_bitnet_folder(const std::string& folder, const BitnetSizes& sizes) {
  std::ofstream(folder + "/config.json") << bitnet_config(sizes);
  return write_bitnet_checkpoint(folder + "/model.safetensors", sizes);
}

}  // namespace tern
