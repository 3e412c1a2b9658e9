// Weights of 8 and 4 bits loaded from a checkpoint into a GPU's memory, compared with the same on a CPU.
#include <cmath>
#include <cstring>

#include "ops/dot/packed_weights.h"
#include "tern/model.h"
#include "tests/support/bitnet_checkpoint.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/linear_weights.h"
#include "tests/support/test_files.h"

namespace tern::test {
namespace {

constexpr std::string_view kEmbeddings = "token_embd.weight";

class LoadOnGpu : public GpuTest {
 protected:
  // Writes a GGUF file with embeddings of this type and returns its path.
  std::string write(StoredType type, const BitnetSizes& sizes) {
    const std::string from = folder_ / "model.safetensors", to = folder_ / "model.gguf";
    EXPECT_TRUE(write_bitnet_folder(folder_.path().string(), sizes).ok());
    auto model = Model::open(from);
    EXPECT_TRUE(model.ok()) << message(model);
    const auto plan = plan_model(*model, to, {.embeddings = type});
    EXPECT_TRUE(plan.ok()) << message(plan);
    const auto report = write_model(*cpu_, *model, *plan, to);
    EXPECT_TRUE(report.ok()) << message(report);
    return to;
  }
  // Copies the tiles of weights on the GPU to the host.
  [[nodiscard]] std::vector<std::uint8_t> tiles(const PackedWeights& packed) const {
    const TileMma tile = TileMma::of(packed.n(), packed.k(), mma_bits(packed.format()));
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(tile.bytes()));
    const Shape shape{tile.bytes()};
    EXPECT_TRUE(gpu_->copy({bytes.data(), DType::u8, shape},
                           ConstTensorView(packed.state()->codes, DType::u8, shape, gpu_->device().id), gpu_->stream())
                    .ok());
    EXPECT_TRUE(gpu_->synchronize().ok());
    return bytes;
  }
  [[nodiscard]] std::vector<float> forward(const Context& on, const PackedWeights& weights, std::int64_t m) const {
    auto layer = BitLinear::make(on, weights, {.m_max = m});
    EXPECT_TRUE(layer.ok()) << message(layer);
    Tensor x = *Tensor::allocate(host_memory(), DType::f32, {m, weights.k()});
    for (std::size_t i = 0; i < x.as<float>().size(); ++i)
      x.as<float>()[i] = static_cast<float>(std::sin(static_cast<double>(i)));
    const Tensor there = *x.to(on);
    Tensor y = *on.allocate(DType::f32, {m, weights.n()});
    const Status status = layer->forward(there.view(), y.view());
    EXPECT_TRUE(status.ok()) << message(status);
    EXPECT_TRUE(on.synchronize().ok());
    const Tensor back = *y.to(*cpu_);
    return {back.as<float>().begin(), back.as<float>().end()};
  }
  TempFolder folder_;
};

// 323 rows end in a partial tile of 16 rows; 140000 rows take several pieces of 16 MiB.
TEST_F(LoadOnGpu, CodedWeightsGiveTheCpusResults) {
  for (const auto& [type, format] : {std::pair{StoredType::q8_0, Format::s8}, std::pair{StoredType::q4_0, Format::s4}})
    for (const std::int64_t vocab : {323, 140'000}) {
      SCOPED_TRACE(std::string(name(type)) + ' ' + std::to_string(vocab));
      const auto model = Model::open(write(type, {.layers = 1, .vocab = vocab}));
      ASSERT_TRUE(model.ok()) << message(model);
      const auto there = load_weights(*gpu_, *model, kEmbeddings), here = load_weights(*cpu_, *model, kEmbeddings);
      ASSERT_TRUE(there.ok() && here.ok()) << message(there) << message(here);
      EXPECT_EQ(there->format(), format);
      EXPECT_EQ(there->tile(), "tile_mma");
      EXPECT_EQ(there->checksum(), here->checksum());
      const PackedWeights::State& want = *here->state();
      const TileMma tile = TileMma::of(want.n, want.k, mma_bits(format));
      const auto bytes = tiles(*there);
      for (std::int64_t row = 0; row < want.n; row += row < 400 ? 1 : 97)
        for (std::int64_t column = 0; column < want.k; ++column)
          ASSERT_EQ(tile.value(bytes.data(), row, column), want.tile.value(want.codes, row, column))
              << row << ' ' << column;
      for (const std::int64_t m : {1, 7, 40}) {
        const std::vector<float> got = forward(*gpu_, *there, m), expected = forward(*cpu_, *here, m);
        ASSERT_EQ(got.size(), expected.size());
        double largest = 0;
        for (const float v : expected) largest = std::max(largest, std::fabs(static_cast<double>(v)));
        // A GPU adds the sums of groups in its own order: docs/numerics.md.
        for (std::size_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(static_cast<double>(got[i]), static_cast<double>(expected[i]), 1e-5 * largest)
              << "m " << m << " at " << i;
      }
    }
}

// A tensor of the model whose trits are in another project's layout.
TEST_F(LoadOnGpu, TritsOfAFileGiveTheCpusBits) {
  const auto model = Model::open(write(StoredType::q8_0, {.layers = 1}));
  ASSERT_TRUE(model.ok()) << message(model);
  const auto there = load_weights(*gpu_, *model, "blk.0.ffn_up.weight"),
             here = load_weights(*cpu_, *model, "blk.0.ffn_up.weight");
  ASSERT_TRUE(there.ok() && here.ok()) << message(there) << message(here);
  EXPECT_EQ(there->checksum(), here->checksum());
  for (const std::int64_t m : {1, 40}) EXPECT_EQ(forward(*gpu_, *there, m), forward(*cpu_, *here, m));
}

}  // namespace
}  // namespace tern::test
