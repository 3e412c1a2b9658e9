// A layer from a file computes what the layer from its tensor computes.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tern/linear.h"
#include "tern/model.h"
#include "tests/support/bitnet_checkpoint.h"
#include "tests/support/test_files.h"

namespace tern {
namespace {

TEST(LoadLayers, EqualThoseThatArePackedByHand) {
  const TempFolder folder;
  ASSERT_TRUE(write_bitnet_folder(folder.path().string(), {.layers = 1}).ok());
  const auto context = Context::open(DeviceId{}, {.threads = 2});
  ASSERT_TRUE(context.ok());
  const auto original = Model::open(folder / "model.safetensors");
  ASSERT_TRUE(original.ok());
  const auto bytes = original->checkpoint().data(*original->checkpoint().find("model.layers.0.mlp.down_proj.weight"));
  const auto q = quantize(*context, {bytes.data(), DType::bf16, {256, 768}});
  ASSERT_TRUE(q.ok());
  const auto packed = PackedWeights::pack(*context, *q);
  ASSERT_TRUE(packed.ok());
  const auto by_hand = BitLinear::make(*context, *packed);
  ASSERT_TRUE(by_hand.ok());
  std::vector<float> x(768), want(256), got(256, -1.0F);
  std::mt19937 random(3);
  for (float& v : x) v = std::normal_distribution<float>()(random);
  ASSERT_TRUE(by_hand->forward({x.data(), DType::f32, {1, 768}}, {want.data(), DType::f32, {1, 256}}).ok());

  for (const auto& [layout, file] : {std::pair{Layout::i2_s_x86_128, "m.gguf"},
                                     {Layout::hf_packed, "m2.safetensors"},
                                     {Layout::i2, "m3.safetensors"}}) {
    const WriteOptions options{.layout = layout};
    const auto plan = plan_model(*original, folder / file, options);
    ASSERT_TRUE(plan.ok()) << plan.error().str();
    ASSERT_TRUE(write_model(*context, *original, *plan, folder / file).ok());
    const auto layer = BitLinear::load(*context, folder / file, "blk.0.ffn_down.weight");
    ASSERT_TRUE(layer.ok()) << layer.error().str();
    EXPECT_EQ(layer->weights().checksum(), packed->checksum());
    ASSERT_TRUE(layer->forward({x.data(), DType::f32, {1, 768}}, {got.data(), DType::f32, {1, 256}}).ok());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0) << file;
  }
  EXPECT_EQ(BitLinear::load(*context, folder / "m.gguf", "blk.9.ffn_down.weight").error().code, Code::invalid_argument);
  EXPECT_EQ(BitLinear::load(*context, folder / "m.gguf", "token_embd.weight").error().code, Code::invalid_argument);
  EXPECT_EQ(BitLinear::load(*context, folder / "gone.gguf", "x").error().code, Code::io_error);
}

}  // namespace
}  // namespace tern
