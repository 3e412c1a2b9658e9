// Linear layers on a GPU as a user calls them, against a CPU: the same bits.
#include <cstring>

#include "ops/dot/packed_weights.h"
#include "plan/context_state.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/linear_weights.h"

namespace tern::test {
namespace {

class LinearOnGpu : public GpuTest {
 protected:
  [[nodiscard]] PackedWeights pack(const Context& on, const Weights& w) const {
    auto packed = PackedWeights::pack(on, w.code_view(), w.scale_view(), w.n, w.k, w.granularity, {}, w.format);
    EXPECT_TRUE(packed.ok()) << message(packed);
    return packed.ok() ? *packed : PackedWeights();
  }
  // Tokens of any type with values of both signs.
  static Tensor tokens(DType dtype, std::int64_t m, std::int64_t k) {
    lab::Random random(static_cast<std::uint64_t>(m * k));
    Tensor x = *Tensor::allocate(host_memory(), dtype, {m, k});
    for (std::int64_t i = 0; i < m * k; ++i) {
      const float v = random.gaussian();
      const auto half =
          static_cast<std::uint16_t>(dtype == DType::bf16 ? __builtin_bit_cast(std::uint32_t, v) >> 16
                                                          : 0x2E00 + random.below(0x1000) + (i % 2 << 15));
      if (dtype == DType::f32)
        x.as<float>()[static_cast<std::size_t>(i)] = v;
      else
        x.as<std::uint16_t>()[static_cast<std::size_t>(i)] = half;
    }
    return x;
  }
  [[nodiscard]] std::vector<std::uint8_t> forward(const Context& on, const Weights& w, const Tensor& x,
                                                  const BitLinearOptions& options) const {
    auto layer = BitLinear::make(on, pack(on, w), options);
    EXPECT_TRUE(layer.ok()) << message(layer);
    Tensor there = *x.to(on), y = *on.allocate(options.y_dtype, {x.shape()[0], w.n});
    const Status status = layer->forward(std::as_const(there).view(), y.view());
    EXPECT_TRUE(status.ok()) << message(status);
    EXPECT_TRUE(on.stream().synchronize().ok());
    const Tensor back = *y.to(*cpu_);
    return {back.as<std::uint8_t>().begin(), back.as<std::uint8_t>().end()};
  }
};

TEST_F(LinearOnGpu, LayersGiveTheCpusBits) {
  for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {21, 130}, {300, 1000}, {640, 2560}})
    for (const std::int64_t m : {1, 2, 8, 9, 33, 64, 65, 257})
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
        for (const Format format : {m == 9 ? Format::b3 : Format::i2, Format::s8, Format::s4}) {
          const Weights w = make_weights(n, k, m % 2 == 0 ? Granularity::row() : Granularity::tensor(), format);
          const std::vector<float> bias(static_cast<std::size_t>(n), 0.75F);
          const Tensor x = tokens(dtype, m, k);
          const BitLinearOptions options{.m_max = m + 3, .x_dtype = dtype, .y_dtype = dtype, .bias = bias};
          ASSERT_EQ(forward(*gpu_, w, x, options), forward(*cpu_, w, x, options))
              << n << 'x' << k << " m " << m << ' ' << name(format);
        }
}

TEST_F(LinearOnGpu, WeightsComeFromOtherLayouts) {
  const Weights w = make_weights(64, 512, Granularity::tensor());
  for (const LayoutSpec& spec : {LayoutSpec(Layout::hf_packed), LayoutSpec(Layout::i2_s_x86_128),
                                 LayoutSpec(Layout::tl2, {32, 96, 32}), LayoutSpec(Layout::tq2_0)}) {
    const bool inside = scales_in(spec.layout).has_value();
    std::vector<std::uint8_t> bytes(*layout_bytes(spec, w.n, w.k));
    const std::vector<float> scale{0.5F}, none;
    ASSERT_TRUE(export_weights(spec, w.code_view(), w.n, w.k, inside ? scale : none, w.granularity, bytes).ok());
    const auto on_gpu = PackedWeights::pack(*gpu_, spec, bytes, w.n, w.k, inside ? none : scale);
    const auto on_cpu = PackedWeights::pack(*cpu_, spec, bytes, w.n, w.k, inside ? none : scale);
    ASSERT_TRUE(on_gpu.ok() && on_cpu.ok()) << message(on_gpu) << message(on_cpu);
    EXPECT_EQ(on_gpu->checksum(), on_cpu->checksum()) << name(spec.layout);
    EXPECT_EQ(on_gpu->tile(), "tile_mma");
  }
}

TEST_F(LinearOnGpu, WeightsComeFromTheHostOrTheGpuInAnySize) {
  for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {17, 129}, {4099, 20'000}, {0, 5}})
    for (const Format format : {Format::i2, Format::b3, Format::s8, Format::s4}) {
      const Weights w = make_weights(n, k, Granularity::row(), format);
      const PackedWeights from_host = pack(*gpu_, w);
      Tensor codes = *Tensor::allocate(host_memory(), code_dtype(format), {n, row_bytes(format, k)});
      Tensor scales = *Tensor::allocate(host_memory(), DType::f32, {static_cast<std::int64_t>(w.scales.size())});
      if (codes.bytes() > 0) std::memcpy(codes.data(), w.codes.data(), codes.bytes());
      if (scales.bytes() > 0) std::memcpy(scales.data(), w.scales.data(), scales.bytes());
      const Tensor there = *codes.to(*gpu_), scales_there = *scales.to(*gpu_);
      auto from_gpu = PackedWeights::pack(*gpu_, there.view(), scales_there.view(), n, k, w.granularity, {}, format);
      ASSERT_TRUE(from_gpu.ok()) << message(from_gpu);
      EXPECT_EQ(from_host.tile(), "tile_mma");
      EXPECT_EQ(from_host.checksum(), pack(*cpu_, w).checksum());
      EXPECT_EQ(from_gpu->checksum(), from_host.checksum());
      const TileMma tile = TileMma::of(n, k, mma_bits(format));
      for (const PackedWeights& packed : {from_host, *from_gpu}) {
        std::vector<std::uint8_t> tiles(static_cast<std::size_t>(tile.bytes()));
        const Shape shape{tile.bytes()};
        ASSERT_TRUE(gpu_->copy({tiles.data(), DType::u8, shape},
                               ConstTensorView(packed.state()->codes, DType::u8, shape, gpu_->device().id),
                               gpu_->stream())
                        .ok());
        ASSERT_TRUE(gpu_->synchronize().ok());
        for (std::int64_t row = 0; row < tile.row_tiles * 16; ++row)
          for (std::int64_t column = 0; column < tile.column_tiles * 128; ++column)
            ASSERT_EQ(tile.value(tiles.data(), row, column),
                      row < n && column < k ? w.trits[static_cast<std::size_t>(row * k + column)] : 0)
                << row << ' ' << column;
      }
    }
}

TEST_F(LinearOnGpu, CodesThatAreNoTritsAreNamed) {
  Weights w = make_weights(33, 300);
  w.codes[static_cast<std::size_t>(20 * 75 + 7)] |= 0x30;  // element 2 of the byte
  auto refused = PackedWeights::pack(*gpu_, w.code_view(), w.scale_view(), w.n, w.k, w.granularity);
  ASSERT_EQ(refused.code(), Code::invalid_quantized_value);
  EXPECT_EQ(refused.error().index, 20 * 300 + 30);
  EXPECT_NE(message(refused).find("codes[20, 30]"), std::string::npos) << message(refused);
  Tensor codes = *Tensor::allocate(host_memory(), DType::u8, {33, 75});
  std::memcpy(codes.data(), w.codes.data(), codes.bytes());
  const Tensor there = *codes.to(*gpu_);
  refused = PackedWeights::pack(*gpu_, there.view(), w.scale_view(), w.n, w.k, w.granularity);
  ASSERT_EQ(refused.code(), Code::invalid_quantized_value);
  EXPECT_EQ(refused.error().index, 20 * 300 + 30);
  w = make_weights(33, 300);
  w.scales[3] = 0;
  EXPECT_EQ(PackedWeights::pack(*gpu_, w.code_view(), w.scale_view(), w.n, w.k, w.granularity).code(),
            Code::invalid_scale);
}

TEST_F(LinearOnGpu, WeightsOfAnotherDeviceAreRefused) {
  const Weights w = make_weights();
  std::vector<float> x(10), y(3);
  auto layer = BitLinear::make(*cpu_, pack(*gpu_, w));
  ASSERT_TRUE(layer.ok());
  const std::string text = message(layer->forward(rows(x, 10), rows(y, 3)));
  EXPECT_NE(text.find("weights were packed for cuda:0, this plan runs on cpu"), std::string::npos) << text;
}

TEST_F(LinearOnGpu, NonFiniteTokensAndBadScalesAreNamed) {
  const Weights w = make_weights(40, 300);
  for (const std::int64_t m : {1, 3, 70}) {
    Tensor x = tokens(DType::f32, m, 300);
    x.as<float>()[static_cast<std::size_t>(m * 300 - 5)] = NAN;
    auto layer = BitLinear::make(*gpu_, pack(*gpu_, w), {.m_max = m});
    ASSERT_TRUE(layer.ok());
    const Tensor there = *x.to(*gpu_);
    Tensor y = *gpu_->allocate(DType::f32, {m, 40});
    ASSERT_TRUE(layer->forward(there.view(), y.view()).ok());
    const Status found = gpu_->stream().synchronize();
    ASSERT_EQ(found.code(), Code::non_finite) << m;
    EXPECT_EQ(found.error().index, m * 300 - 5);

    Linear::Problem problem{.m_max = m, .k = 300};
    problem.matrices = {{.n = 40, .granularity = Granularity::row()}};
    auto plan = LinearPlan::select(*gpu_, problem);
    ASSERT_TRUE(plan.ok()) << message(plan);
    Tensor bytes = *gpu_->allocate(DType::i8, {m, 300}), scales = *Tensor::allocate(host_memory(), DType::f32, {m});
    for (float& s : scales.as<float>()) s = 2;
    scales.as<float>().back() = -1;
    const Tensor scales_there = *scales.to(*gpu_);
    Tensor workspace = *gpu_->allocate(DType::u8, {static_cast<std::int64_t>(plan->workspace_bytes())});
    const Linear::Output output{.weights = pack(*gpu_, w), .y = y.view()};
    ASSERT_TRUE(plan->run(gpu_->stream(), workspace.as<std::byte>(),
                          {.x = std::as_const(bytes).view(), .x_scales = scales_there.view(), .outputs = {&output, 1}})
                    .ok());
    const Status bad = gpu_->stream().synchronize();
    ASSERT_EQ(bad.code(), Code::invalid_scale) << m;
    EXPECT_EQ(bad.error().index, m - 1);
  }
}

// Graphs that are captured once and replayed often, on two streams at once, always give the same bits.
TEST_F(LinearOnGpu, GraphsAndStreamsGiveTheSameBits) {
  for (const Format format : {Format::i2, Format::s8, Format::s4})
    for (const std::int64_t m : {1, 16, 200}) {
      const Weights w = make_weights(640, 2560, Granularity::row(), format);
      const Tensor x = tokens(DType::bf16, m, 2560);
      const BitLinearOptions options{.m_max = m, .x_dtype = DType::bf16, .y_dtype = DType::bf16};
      const auto want = forward(*cpu_, w, x, options);
      auto layer = BitLinear::make(*gpu_, pack(*gpu_, w), options);
      ASSERT_TRUE(layer.ok()) << message(layer);
      const Tensor there = *x.to(*gpu_);
      Linear::Problem problem = layer->plan().problem();
      struct Lane {
        Tensor y, workspace;
        cuda::Graph* graph = nullptr;
      } lanes[2];
      for (int i = 0; i < 2; ++i) {
        Lane& lane = lanes[i];
        lane.y = *gpu_->allocate(DType::bf16, {m, w.n});
        lane.workspace = *gpu_->allocate(DType::u8, {static_cast<std::int64_t>(layer->workspace_bytes())});
        const Linear::Output output{.weights = layer->weights(), .y = lane.y.view()};
        auto graph = cuda::capture(static_cast<cuda::Stream*>(gpu_->stream(i).cuda_stream()), [&]() -> Status {
          for (int times = 0; times < 5; ++times)
            if (Status status = layer->plan().run(gpu_->stream(i), lane.workspace.as<std::byte>(),
                                                  {.x = there.view(), .outputs = {&output, 1}});
                !status.ok())
              return status;
          return {};
        });
        ASSERT_TRUE(graph.ok()) << message(graph);
        lane.graph = *graph;
      }
      for (int replay = 0; replay < 200; ++replay)
        for (int i = 0; i < 2; ++i)
          ASSERT_TRUE(cuda::replay(lanes[i].graph, static_cast<cuda::Stream*>(gpu_->stream(i).cuda_stream())).ok());
      ASSERT_TRUE(gpu_->synchronize().ok());
      for (Lane& lane : lanes) {
        const Tensor y = *lane.y.to(*cpu_);
        EXPECT_EQ(std::memcmp(y.data(), want.data(), want.size()), 0) << m << ' ' << name(format);
        cuda::destroy(lane.graph);
      }
    }
}

// The bits depend neither on how a launch is split nor on whether it waits for the kernel before it.
TEST_F(LinearOnGpu, ATuningChangesNoBit) {
  const Tuning tunings[] = {{.threads = 64},
                            {.grid = GridStrategy::fixed, .split = 1},
                            {.threads = 256, .grid = GridStrategy::occupancy, .split = 4},
                            {.threads = 1024, .split = 1000, .dependent_launch = true},
                            {.dependent_launch = false}};
  for (const Format format : {Format::i2, Format::s8, Format::s4})
    for (const Granularity& granularity : {Granularity::row(), Granularity::group(128)})
      for (const std::int64_t m : {1, 8, 40, 200}) {
        const Weights w = make_weights(650, 2560, granularity, format);
        const Tensor x = tokens(DType::bf16, m, 2560);
        BitLinearOptions options{.m_max = m, .x_dtype = DType::bf16, .y_dtype = DType::bf16};
        const auto want = forward(*gpu_, w, x, options);
        for (const Tuning& tuning : tunings) {
          options.preference.tuning = tuning;
          ASSERT_EQ(forward(*gpu_, w, x, options), want) << name(granularity) << " m " << m << ' ' << name(tuning);
        }
      }
}

TEST_F(LinearOnGpu, W2a8Gemv) {
  for (const Format format : {Format::i2, Format::s8, Format::s4}) {
    const Weights w = make_weights(333, 777, Granularity::row(), format);
    Tensor a = *Tensor::allocate(host_memory(), DType::i8, {777});
    for (std::size_t i = 0; i < 777; ++i) a.as<std::int8_t>()[i] = static_cast<std::int8_t>(i * 37);
    const Tensor there = *a.to(*gpu_);
    Tensor out = *gpu_->allocate(DType::i32, {333});
    const Status status = w2a8_gemv(*gpu_, pack(*gpu_, w), there.view(), out.view(), 333, 777, 1);
    ASSERT_TRUE(status.ok()) << message(status);
    ASSERT_TRUE(gpu_->synchronize().ok());
    const Tensor back = *out.to(*cpu_);
    for (std::size_t n = 0; n < 333; ++n) {
      std::int32_t want = 0;
      for (std::size_t k = 0; k < 777; ++k) want += a.as<std::int8_t>()[k] * w.trits[n * 777 + k];
      ASSERT_EQ(back.as<std::int32_t>()[n], want) << n << ' ' << name(format);
    }
  }
}

// Scales of 8- and 4-bit weights may have either sign but must be finite, on a GPU as on the host.
TEST_F(LinearOnGpu, ScalesOfWiderWeights) {
  Weights w = make_weights(40, 300, Granularity::group(64), Format::s4);
  w.scales[7] = -0.25F;
  w.scales[8] = 0;
  const Tensor x = tokens(DType::f32, 3, 300);
  EXPECT_EQ(forward(*gpu_, w, x, {.m_max = 3}).size(), 3U * 40 * 4);
  w.scales[9] = NAN;
  const auto refused = PackedWeights::pack(*gpu_, w.code_view(), w.scale_view(), w.n, w.k, w.granularity, {}, w.format);
  ASSERT_EQ(refused.code(), Code::invalid_scale);
  EXPECT_EQ(refused.error().index, 9);
}

}  // namespace
}  // namespace tern::test
