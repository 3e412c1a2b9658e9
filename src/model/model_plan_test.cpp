// plan_tensors(): what happens to each tensor, tested without files.
#include "model/model_plan.h"

#include <gtest/gtest.h>

#include "model/tern_keys.h"
#include "tests/support/bitnet_checkpoint.h"

namespace tern {
namespace {

std::vector<ModelTensor> bitnet(const BitnetSizes& sizes = {}) {
  std::vector<ModelTensor> out;
  for (const BitnetTensor& t : bitnet_tensors(sizes)) {
    std::size_t bytes = 2;
    for (const std::int64_t size : t.shape) bytes *= static_cast<std::size_t>(size);
    out.push_back({.name = t.name,
                   .hf_name = t.name,
                   .shape = t.shape,
                   .type = StoredType::bf16,
                   .stored_shape = t.shape,
                   .index = out.size(),
                   .bytes = bytes});
  }
  return out;
}

Result<ModelPlan> plan(const std::vector<ModelTensor>& tensors, const std::string& output, const WriteOptions& options,
                       const Metadata& metadata = {}, Container container = Container::safetensors) {
  const std::string config = bitnet_config({});
  return plan_tensors({.tensors = tensors, .container = container, .metadata = metadata, .config_json = config}, output,
                      options);
}

const TensorPlan& of(const ModelPlan& plan, std::string_view name) {
  for (const TensorPlan& t : plan.tensors)
    if (t.name == name) return t;
  ADD_FAILURE() << "no " << name;
  return plan.tensors.front();
}

TEST(ModelPlan, ProjectionsBecomeTernaryAndTheRestStays) {
  const auto made = plan(bitnet(), "out.gguf", {});
  ASSERT_TRUE(made.ok()) << made.error().str();
  EXPECT_EQ(made->container, Container::gguf);
  EXPECT_EQ(made->layout, Layout::i2_s_x86_128);
  EXPECT_EQ(made->count(Action::quantize), 14U);
  EXPECT_EQ(made->count(Action::cast), 9U) << "norms become F32";
  EXPECT_EQ(made->count(Action::copy), 1U) << "the embedding";
  const TensorPlan& q = of(*made, "blk.1.attn_q.weight");
  EXPECT_EQ(q.type, StoredType::i2_s);
  EXPECT_EQ(q.out_bytes, 256U * 256 / 4 + 32);
  EXPECT_EQ(q.why, "a projection");
  EXPECT_EQ(of(*made, "token_embd.weight").type, StoredType::bf16);
  EXPECT_EQ(of(*made, "blk.0.ffn_sub_norm.weight").type, StoredType::f32);
  EXPECT_EQ(of(*made, "blk.0.ffn_sub_norm.weight").out_bytes, 768U * 4);
  EXPECT_EQ(
      made->in_bytes(), made->tensors.size() == 0 ? 0 : [&] {
        std::size_t sum = 0;
        for (const auto& t : bitnet()) sum += t.bytes;
        return sum;
      }());
}

TEST(ModelPlan, TheOutputDescribesItself) {
  const auto made = plan(bitnet(), "out.gguf", {});
  ASSERT_TRUE(made.ok());
  const auto text = [&](std::string_view key) {
    const auto* t = keys::text(made->metadata, key);
    return t ? *t : "none";
  };
  EXPECT_EQ(text("tern.format"), "i2_s.x86_128");
  EXPECT_EQ(text("tern.scheme"), "absmean");
  EXPECT_EQ(text("tern.granularity"), "tensor");
  EXPECT_EQ(text("tern.checksum.blk.0.attn_q.weight"), "0000000000000000");
  EXPECT_EQ(find_key(made->metadata, "general.file_type")->integer(), 40);
  EXPECT_EQ(text("general.architecture"), "bitnet-b1.58");
  EXPECT_EQ(find_key(made->metadata, "tern.shape.blk.0.attn_q.weight"), nullptr) << "GGUF has the shape itself";
}

TEST(ModelPlan, SafetensorsHasScalesBeside) {
  const auto made = plan(bitnet(), "out.safetensors", {.granularity = Granularity::group(128)});
  ASSERT_TRUE(made.ok()) << made.error().str();
  EXPECT_EQ(made->layout, Layout::i2);
  const TensorPlan& up = of(*made, "model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(up.scale_name, "model.layers.0.mlp.up_proj.weight.scales");
  EXPECT_EQ(up.out_bytes, 768U * 64 + 768 * 2 * 4);
  EXPECT_EQ(made->count(Action::cast), 0U);
  const auto tensors = bitnet();
  const auto stored = stored_tensors(*made, tensors);
  EXPECT_EQ(stored.size(), made->tensors.size() + 14);
  EXPECT_EQ(*keys::text(made->metadata, "tern.shape.model.layers.0.mlp.up_proj.weight"), "768x256");
}

TEST(ModelPlan, HfPackedQuartersTheRows) {
  const auto tensors = bitnet();
  const auto made = plan(tensors, "out.safetensors", {.layout = Layout::hf_packed});
  ASSERT_TRUE(made.ok()) << made.error().str();
  for (const StoredTensor& t : stored_tensors(*made, tensors)) {
    if (t.name == "model.layers.0.self_attn.k_proj.weight") {
      EXPECT_EQ(t.shape, (std::vector<std::int64_t>{32, 256}));
    }
    if (t.name == "model.layers.0.self_attn.k_proj.weight_scale") {
      EXPECT_EQ(t.shape, (std::vector<std::int64_t>{1}));
    }
  }
  EXPECT_EQ(*keys::text(made->metadata, "tern.weight_scale"), "multiplies");
}

TEST(ModelPlan, ExpressionsDecide) {
  auto made = plan(bitnet(), "o.gguf", {.include = "attn_q|q_proj", .exclude = "layers\\.1\\."});
  ASSERT_TRUE(made.ok()) << made.error().str();
  EXPECT_EQ(made->count(Action::quantize), 1U);
  EXPECT_EQ(of(*made, "blk.1.attn_q.weight").why, "WriteOptions::exclude");
  EXPECT_EQ(of(*made, "blk.0.attn_k.weight").why, "not in WriteOptions::include");
  made = plan(bitnet(), "o.gguf", {.include = "embed_tokens"});
  ASSERT_TRUE(made.ok()) << made.error().str();
  EXPECT_EQ(of(*made, "token_embd.weight").action, Action::quantize) << "asked for by name";
  made = plan(bitnet(), "o.gguf", {.drop = "embed"});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->count(Action::drop), 1U);
  const auto none = plan(bitnet(), "o.gguf", {.exclude = "nothing_like_it"});
  ASSERT_FALSE(none.ok()) << "an expression that matches nothing is a mistake";
  EXPECT_NE(none.error().message.find("nothing_like_it"), std::string::npos);
}

TEST(ModelPlan, NoNameIsTooLongToBeExcluded) {
  std::vector<ModelTensor> tensors = bitnet();
  tensors[3].name = tensors[3].hf_name = "model.layers.0." + std::string(600, 'q') + "_proj.weight";
  EXPECT_TRUE(plan(tensors, "o.gguf", {}).ok()) << "without expressions nothing is searched for";
  for (const WriteOptions& options :
       {WriteOptions{.include = "q_proj"}, WriteOptions{.exclude = "q_proj"}, WriteOptions{.drop = "q_proj"}}) {
    const auto made = plan(tensors, "o.gguf", options);
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().message.find("'q_proj'"), std::string::npos) << made.error().message;
    EXPECT_NE(made.error().message.find("at most 512"), std::string::npos) << made.error().message;
  }
}

TEST(ModelPlan, EmbeddingsAreCastWhereAsked) {
  for (const StoredType wrong : {StoredType::f32, StoredType::f64, StoredType::i8, StoredType::q4_1, StoredType::i32})
    EXPECT_EQ(plan(bitnet(), "o.gguf", {.embeddings = wrong}).code(), Code::invalid_argument) << name(wrong);
  const auto made = plan(bitnet(), "o.gguf", {.embeddings = StoredType::f16});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(of(*made, "token_embd.weight").action, Action::cast);
  EXPECT_EQ(of(*made, "token_embd.weight").type, StoredType::f16);
}

TEST(ModelPlan, WhatDoesNotFitIsRefusedWithAReason) {
  const auto refused = [](Result<ModelPlan> made, std::initializer_list<const char*> words) {
    ASSERT_FALSE(made.ok());
    for (const char* word : words)
      EXPECT_NE(made.error().message.find(word), std::string::npos) << word << " in " << made.error().message;
  };
  refused(plan(bitnet(), "o.gguf", {.layout = Layout::hf_packed}), {"gguf", "hf_packed", "tq2_0"});
  refused(plan(bitnet(), "o.safetensors", {.layout = Layout::tq2_0}), {"safetensors", "tq2_0", "ms_gpu"});
  refused(plan(bitnet(), "o.gguf", {.granularity = Granularity::row()}), {"one scale", "row", "i2"});
  refused(plan(bitnet(), "o.gguf", {.scheme = Scheme::int2}), {"int2", "absmean"});
  refused(plan(bitnet(), "o.gguf", {.scheme = Scheme::absmax, .match_bitnet = true}), {"absmean", "absmax"});
  refused(plan(bitnet({.hidden = 130}), "o.gguf", {}), {"WriteOptions::exclude", "WriteOptions::layout"});
  refused(plan(bitnet(), "o.gguf", {.layout = Layout::tl1}), {"tl1", "WriteOptions::tiles"});
  auto tensors = bitnet();
  tensors[0].type = StoredType::u8;
  refused(plan(tensors, "o.gguf", {}), {"U8", "WriteOptions::drop", "embed_tokens"});
  tensors[0].type = StoredType::q4_k;
  refused(plan(tensors, "o.safetensors", {}, {}, Container::gguf), {"Q4_K", "safetensors"});
  refused(plan(bitnet(), "o.npz", {}), {"'o.npz'", ".gguf or .safetensors"});
  refused(plan(bitnet(), "o.gguf", {.container = Container::safetensors}), {"'o.gguf'", "safetensors was asked for"});
  EXPECT_EQ(plan(bitnet(), "o", {.container = Container::gguf})->container, Container::gguf);
  refused(plan(bitnet(), "o.gguf", {.drop = "weight"}), {"'weight'", "all 24 tensors"});
}

TEST(ModelPlan, NothingToDoIsNoted) {
  const auto last_note = [](const std::vector<ModelTensor>& tensors, const WriteOptions& options) {
    const auto made = plan(tensors, "o.safetensors", options);
    return made.ok() && !made->notes.empty() ? made->notes.back() : "";
  };
  EXPECT_EQ(last_note(bitnet(), {}), "");
  EXPECT_NE(last_note(bitnet(), {.exclude = "proj"}).find("nothing is quantized"), std::string::npos);
  EXPECT_EQ(last_note(bitnet(), {.layout = Layout::b3, .quantize = false}), "no matrix is ternary, so none becomes b3");
}

TEST(ModelPlan, ConvertingLeavesFloatsAndRepacksTrits) {
  std::vector<ModelTensor> tensors = bitnet();
  for (ModelTensor& t : tensors)
    if (t.name.ends_with("_proj.weight")) {
      t.ternary = true;
      t.layout = Layout::hf_packed;
      t.type = StoredType::u8;
    }
  const auto made = plan(tensors, "o.gguf", {.layout = Layout::tq2_0, .quantize = false});
  ASSERT_TRUE(made.ok()) << made.error().str();
  EXPECT_EQ(made->count(Action::repack), 14U);
  EXPECT_EQ(made->count(Action::quantize), 0U);
  EXPECT_EQ(of(*made, "blk.0.attn_q.weight").granularity, Granularity::group(256));
  EXPECT_EQ(find_key(made->metadata, "general.file_type")->integer(), 37);
  EXPECT_EQ(keys::text(made->metadata, "tern.scheme"), nullptr) << "nobody said how it was quantized";
  tensors[2].unreadable = "give ReadOptions::i2_s";
  tensors[2].layout.reset();
  EXPECT_FALSE(plan(tensors, "o.gguf", {.quantize = false}).ok());
}

TEST(ModelPlan, MetadataIsCarriedThrough) {
  const Metadata metadata = {{"general.architecture", MetaValue("bitnet-b1.58")},
                             {"tokenizer.ggml.model", MetaValue("gpt2")},
                             {"tern.checksum.gone", MetaValue("x")},
                             {"tern.scheme", MetaValue("mse")}};
  const auto made = plan(bitnet(), "o.gguf", {.quantize = false}, metadata, Container::gguf);
  ASSERT_TRUE(made.ok()) << made.error().str();
  EXPECT_EQ(*keys::text(made->metadata, "tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(find_key(made->metadata, "tern.checksum.gone"), nullptr);
  const auto out = plan(bitnet(), "o.safetensors", {.quantize = false}, metadata, Container::gguf);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(find_key(out->metadata, "tokenizer.ggml.model"), nullptr);
  ASSERT_EQ(out->notes.size(), 1U);
  EXPECT_NE(out->notes[0].find("4 metadata keys"), std::string::npos);
  const auto llama = plan(bitnet(), "o.safetensors", {.quantize = false},
                          {{"general.architecture", MetaValue("llama")}}, Container::gguf);
  ASSERT_TRUE(llama.ok());
  ASSERT_EQ(llama->notes.size(), 2U);
  EXPECT_NE(llama->notes[1].find("rows of q and k"), std::string::npos);
}

}  // namespace
}  // namespace tern
