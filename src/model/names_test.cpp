// Maps names in both directions, translates the configuration of a model, and matches expressions with names.
#include <gtest/gtest.h>

#include <set>

#include "model/model_config.h"
#include "model/name_filter.h"
#include "tern/model.h"
#include "tests/support/bitnet_checkpoint.h"

namespace tern {
namespace {

TEST(Names, OfALayer) {
  EXPECT_EQ(gguf_name("model.layers.17.self_attn.q_proj.weight"), "blk.17.attn_q.weight");
  EXPECT_EQ(gguf_name("model.layers.0.self_attn.o_proj.bias"), "blk.0.attn_output.bias");
  EXPECT_EQ(gguf_name("model.layers.3.input_layernorm.weight"), "blk.3.attn_norm.weight");
  EXPECT_EQ(gguf_name("model.layers.3.post_attention_layernorm.weight"), "blk.3.ffn_norm.weight");
  EXPECT_EQ(gguf_name("model.embed_tokens.weight"), "token_embd.weight");
  EXPECT_EQ(gguf_name("model.norm.weight"), "output_norm.weight");
  EXPECT_EQ(gguf_name("lm_head.weight"), "output.weight");
  EXPECT_EQ(hf_name("output.weight"), "lm_head.weight");
  EXPECT_EQ(hf_name("blk.3.ffn_sub_norm.weight"), "model.layers.3.mlp.ffn_sub_norm.weight");
}

TEST(Names, EveryTensorOfBitNetGoesThereAndBack) {
  std::set<std::string> seen;
  for (const BitnetTensor& t : bitnet_tensors({.layers = 3})) {
    const std::string gguf = gguf_name(t.name);
    EXPECT_FALSE(gguf.empty()) << t.name;
    EXPECT_TRUE(seen.insert(gguf).second) << gguf;
    EXPECT_EQ(hf_name(gguf), t.name);
  }
}

TEST(Names, AnOlderSpellingMapsToTheSame) {
  EXPECT_EQ(gguf_name("model.layers.1.self_attn.inner_attn_ln.weight"), "blk.1.attn_sub_norm.weight");
  EXPECT_EQ(gguf_name("model.layers.1.mlp.ffn_layernorm.weight"), "blk.1.ffn_sub_norm.weight");
  EXPECT_EQ(hf_name("blk.1.attn_sub_norm.weight"), "model.layers.1.self_attn.attn_sub_norm.weight");
}

TEST(Names, WhatIsUnknownIsLeftAlone) {
  for (const char* name :
       {"", "weight", ".weight", "model.layers..mlp.up_proj.weight", "model.layers.x.mlp.up_proj.weight",
        "model.layers.-1.mlp.up_proj.weight", "model.layers.1.mlp.up_proj", "model.layers.1.mlp.up_proj.scale",
        "model.layers.1234567890123.mlp.up_proj.weight", "blk.1.attn_q.weight", "model.layers.1.weight"})
    EXPECT_EQ(gguf_name(name), "") << name;
  for (const char* name :
       {"blk.1.weight", "blk.attn_q.weight", "model.norm.weight", "blk.1.attn_q", "blk.1.attn_qq.weight"})
    EXPECT_EQ(hf_name(name), "") << name;
}

TEST(ModelConfig, SizesBecomeKeys) {
  const auto config = gguf_config(bitnet_config(BitnetSizes::b1_58_2b()), "");
  ASSERT_TRUE(config.ok()) << config.error().str();
  const auto integer = [&](const char* key) {
    const MetaValue* value = find_key(config->metadata, key);
    return value == nullptr ? -1 : value->integer().value_or(-2);
  };
  EXPECT_EQ(*find_key(config->metadata, "general.architecture")->text(), "bitnet-b1.58");
  EXPECT_EQ(integer("bitnet-b1.58.block_count"), 30);
  EXPECT_EQ(integer("bitnet-b1.58.context_length"), 4096);
  EXPECT_EQ(integer("bitnet-b1.58.embedding_length"), 2560);
  EXPECT_EQ(integer("bitnet-b1.58.feed_forward_length"), 6912);
  EXPECT_EQ(integer("bitnet-b1.58.attention.head_count"), 20);
  EXPECT_EQ(integer("bitnet-b1.58.attention.head_count_kv"), 1);
  EXPECT_EQ(integer("bitnet-b1.58.rope.dimension_count"), 128);
  EXPECT_EQ(integer("bitnet-b1.58.vocab_size"), 128256);
  const MetaValue* epsilon = find_key(config->metadata, "bitnet-b1.58.attention.layer_norm_rms_epsilon");
  ASSERT_NE(epsilon, nullptr);
  EXPECT_EQ(epsilon->kind(), MetaKind::f32);
  EXPECT_EQ(static_cast<float>(*epsilon->number()), 1e-5F);
}

TEST(ModelConfig, AnArchitectureIsNotGuessed) {
  const auto llama = gguf_config(R"({"model_type": "llama"})", "");
  ASSERT_FALSE(llama.ok());
  EXPECT_NE(llama.error().message.find("WriteOptions::architecture"), std::string::npos) << llama.error().message;
  EXPECT_NE(llama.error().message.find("llama"), std::string::npos);
  EXPECT_FALSE(gguf_config("", "").ok());
  const auto given = gguf_config("", "bitnet");
  ASSERT_TRUE(given.ok());
  EXPECT_EQ(*find_key(given->metadata, "general.architecture")->text(), "bitnet");
  EXPECT_EQ(given->notes.size(), 1U);
}

TEST(ModelConfig, HostileTextIsAnError) {
  for (const char* text : {"[]", "{", "{\"model_type\":", "7", "\xff"})
    EXPECT_FALSE(gguf_config(text, "bitnet").ok()) << text;
  const auto odd = gguf_config(R"({"model_type":"bitnet","hidden_size":-1,"vocab_size":"many","rope_theta":1e999,
                                   "num_hidden_layers":99999999999999,"num_attention_heads":0})",
                               "");
  if (odd.ok()) {
    EXPECT_EQ(find_key(odd->metadata, "bitnet-b1.58.vocab_size"), nullptr);
  }
}

TEST(NameFilter, SearchesAndIsNotCatastrophic) {
  auto filter = NameFilter::compile("layers\\.(0|1)\\.", "WriteOptions::include");
  ASSERT_TRUE(filter.ok());
  EXPECT_TRUE(*filter->matches("model.layers.1.mlp"));
  EXPECT_FALSE(*filter->matches("model.layers.11.mlp"));
  EXPECT_FALSE(NameFilter().given());
  // A backtracking matcher would need 2^60 steps for this.
  auto evil = NameFilter::compile("(a+)+$", "WriteOptions::include");
  ASSERT_TRUE(evil.ok());
  EXPECT_FALSE(*evil->matches(std::string(60, 'a') + "b"));
}

// Treated as no match, a name that is too long would be quantized in spite of --exclude.
TEST(NameFilter, NamesBeyondTheLimitAreAnError) {
  const auto filter = NameFilter::compile("a+$", "WriteOptions::exclude");
  ASSERT_TRUE(filter.ok());
  EXPECT_TRUE(*filter->matches(std::string(512, 'a')));
  const auto refused = filter->matches(std::string(513, 'a'));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().where, "WriteOptions::exclude");
  for (const char* part : {"'a+$'", "513 characters", "at most 512"})
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  EXPECT_FALSE(*NameFilter().matches(std::string(100000, 'a'))) << "no expression, nothing to search for";
}

TEST(NameFilter, MistakesAreNamed) {
  for (const char* text : {"(", "[a", "*", "(a)\\1"}) {
    const auto filter = NameFilter::compile(text, "WriteOptions::include");
    ASSERT_FALSE(filter.ok()) << text;
    EXPECT_EQ(filter.error().code, Code::invalid_argument);
    EXPECT_EQ(filter.error().where, "WriteOptions::include");
    EXPECT_NE(filter.error().message.find(text), std::string::npos);
  }
  const auto long_one = NameFilter::compile(std::string(5000, 'a'), "WriteOptions::include");
  ASSERT_FALSE(long_one.ok());
  for (const char* part : {"'aaaa", "5000 characters", "4096 are allowed"})
    EXPECT_NE(long_one.error().message.find(part), std::string::npos) << long_one.error().message;
}

}  // namespace
}  // namespace tern
