// Chains of layers on a GPU: each result is the next call's input, a launch may begin before the one before it has
// ended, and all share one workspace. The results must have a CPU's bits.
#include <cstring>
#include <optional>

#include "plan/context_state.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/linear_weights.h"

namespace tern::test {
namespace {

constexpr std::int64_t kWidth = 640;
constexpr int kDepth = 5, kChains = 24;

class ChainOnGpu : public GpuTest {
 protected:
  // Two very different inputs, so that a call that reads the data of another call is noticed.
  static Tensor input(std::int64_t m, int which) {
    lab::Random random(static_cast<std::uint64_t>(10 * m + which));
    Tensor x = *Tensor::allocate(host_memory(), DType::bf16, {m, kWidth});
    for (std::uint16_t& v : x.as<std::uint16_t>()) {
      const float f = random.gaussian() * (which == 0 ? 1.0F : 40.0F);
      v = static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, f) >> 16);
    }
    return x;
  }
  struct Layers {
    std::vector<BitLinear> layers;
    std::int64_t workspace_bytes = 0;
  };
  static Layers make(const Context& on, std::int64_t m, const Granularity& granularity, const Tuning& tuning) {
    Layers made;
    for (int i = 0; i < kDepth; ++i) {
      Weights w = make_weights(kWidth, kWidth, granularity);
      std::rotate(w.codes.begin(), w.codes.begin() + 1 + 7 * i, w.codes.end());  // different weights for each layer
      auto packed = PackedWeights::pack(on, w.code_view(), w.scale_view(), w.n, w.k, granularity);
      EXPECT_TRUE(packed.ok()) << message(packed);
      BitLinearOptions options{.m_max = m, .x_dtype = DType::bf16, .y_dtype = DType::bf16};
      options.preference.tuning = tuning;
      auto layer = BitLinear::make(on, *packed, options);
      EXPECT_TRUE(layer.ok()) << message(layer);
      made.workspace_bytes = std::max(made.workspace_bytes, static_cast<std::int64_t>(layer->workspace_bytes()));
      made.layers.push_back(*std::move(layer));
    }
    return made;
  }
  // Runs the chain for one input and waits after each layer.
  static std::vector<std::byte> step_by_step(const Context& on, const Context& host, const Layers& made,
                                             const Tensor& x) {
    const std::int64_t m = x.shape()[0];
    Tensor at = *x.to(on);
    for (const BitLinear& layer : made.layers) {
      Tensor y = *on.allocate(DType::bf16, {m, kWidth});
      const Status status = layer.forward(std::as_const(at).view(), y.view());
      EXPECT_TRUE(status.ok()) << message(status);
      EXPECT_TRUE(on.synchronize().ok());
      at = std::move(y);
    }
    const Tensor back = *at.to(host);
    return {back.as<std::byte>().begin(), back.as<std::byte>().end()};
  }

  enum class Poison : std::uint8_t { never, between_calls, between_chains };
  // Runs many chains with alternating inputs, without waiting in between.
  void expect_chains(const Layers& made, const Tensor (&inputs)[2], const std::vector<std::byte> (&want)[2],
                     bool in_graph, Poison poison, const std::string& words) {
    const std::int64_t m = inputs[0].shape()[0];
    const Tensor x[2] = {*inputs[0].to(*gpu_), *inputs[1].to(*gpu_)};
    Tensor buffers[2] = {*gpu_->allocate(DType::bf16, {m, kWidth}), *gpu_->allocate(DType::bf16, {m, kWidth})};
    Tensor results = *gpu_->allocate(DType::bf16, {kChains, m, kWidth});
    Tensor workspace = *gpu_->allocate(DType::u8, {made.workspace_bytes});
    const Stream stream = gpu_->stream(1);
    auto* raw = static_cast<cuda::Stream*>(stream.cuda_stream());
    for (Tensor* tensor : {&results, &workspace, &buffers[0], &buffers[1]})
      ASSERT_TRUE(cuda::fill(tensor->data(), 0x7F, tensor->bytes(), raw).ok());
    const auto spoil = [&](bool now) {
      return now ? cuda::fill(workspace.data(), 0x7F, workspace.bytes(), raw) : Status();
    };
    const auto put = [&]() -> Status {
      for (int chain = 0; chain < kChains; ++chain) {
        const void* from = x[chain % 2].data();
        for (int i = 0; i < kDepth; ++i) {
          void* to = i + 1 < kDepth ? buffers[i % 2].data() : results.as<std::uint16_t>().data() + chain * m * kWidth;
          if (Status status = spoil(poison == Poison::between_calls || (poison == Poison::between_chains && i == 0));
              !status.ok())
            return status;
          const DeviceId on = gpu_->device().id;
          const BitLinear& layer = made.layers[static_cast<std::size_t>(i)];
          const Linear::Output output{.weights = layer.weights(), .y = {to, DType::bf16, {m, kWidth}, on}};
          if (Status status = layer.plan().run(stream, workspace.as<std::byte>(),
                                               {.x = {from, DType::bf16, {m, kWidth}, on}, .outputs = {&output, 1}});
              !status.ok())
            return status;
          from = to;
        }
      }
      return {};
    };
    const int times = in_graph ? 3 : 1;
    if (in_graph) {
      auto graph = cuda::capture(raw, put);
      ASSERT_TRUE(graph.ok()) << words << message(graph);
      for (int i = 0; i < times; ++i) ASSERT_TRUE(cuda::replay(*graph, raw).ok());
      const Status found = stream.synchronize();
      cuda::destroy(*graph);
      ASSERT_TRUE(found.ok()) << words << message(found);
    } else {
      const Status status = put();
      ASSERT_TRUE(status.ok()) << words << message(status);
      const Status found = stream.synchronize();
      ASSERT_TRUE(found.ok()) << words << message(found);
    }
    const Tensor got = *results.to(*cpu_);
    for (int chain = 0; chain < kChains; ++chain) {
      const auto& expected = want[chain % 2];
      ASSERT_EQ(std::memcmp(got.as<std::byte>().data() + static_cast<std::size_t>(chain) * expected.size(),
                            expected.data(), expected.size()),
                0)
          << words << " chain " << chain;
    }
    for (int i = 0; i < 2; ++i) {  // the inputs must be unchanged
      const Tensor back = *x[i].to(*cpu_);
      ASSERT_EQ(std::memcmp(back.data(), inputs[i].data(), back.bytes()), 0) << words;
    }
  }

  void expect_all_ways(std::int64_t m, const Granularity& granularity, bool against_cpu) {
    const Tensor inputs[2] = {input(m, 0), input(m, 1)};
    std::vector<std::byte> want[2];
    const Layers truth =
        against_cpu ? make(*cpu_, m, granularity, {}) : make(*gpu_, m, granularity, {.dependent_launch = false});
    for (int i = 0; i < 2; ++i) want[i] = step_by_step(against_cpu ? *cpu_ : *gpu_, *cpu_, truth, inputs[i]);
    ASSERT_NE(want[0], want[1]);
    for (const std::optional<bool> dependent : {std::optional<bool>(), std::optional(true), std::optional(false)}) {
      const Layers made = make(*gpu_, m, granularity, {.dependent_launch = dependent});
      for (const bool in_graph : {false, true})
        for (const Poison poison : {Poison::never, Poison::between_calls, Poison::between_chains}) {
          expect_chains(made, inputs, want, in_graph, poison,
                        "m " + std::to_string(m) + " by " + name(granularity) + ' ' +
                            name(Tuning{.dependent_launch = dependent}) + (in_graph ? " graph" : "") + " poison " +
                            std::to_string(static_cast<int>(poison)));
          if (HasFatalFailure()) return;
        }
    }
  }
};

TEST_F(ChainOnGpu, FewTokens) {
  for (const std::int64_t m : {1, 2, 8}) {
    expect_all_ways(m, Granularity::row(), true);
    if (HasFatalFailure()) return;
  }
}

TEST_F(ChainOnGpu, ManyTokens) {
  for (const std::int64_t m : {9, 40, 200, 700}) {
    expect_all_ways(m, Granularity::tensor(), true);
    if (HasFatalFailure()) return;
  }
}

// A GPU adds float sums in its own order, so compare with the same GPU running one call at a time.
TEST_F(ChainOnGpu, GroupScales) {
  for (const std::int64_t m : {1, 16, 200}) {
    expect_all_ways(m, Granularity::group(128), false);
    if (HasFatalFailure()) return;
  }
}

// Few tokens, then many, then few again, so that kernels of different kinds follow one another.
TEST_F(ChainOnGpu, KernelsOfAllKindsInTurn) {
  const Layers on_cpu = make(*cpu_, 300, Granularity::row(), {}), made = make(*gpu_, 300, Granularity::row(), {});
  const std::int64_t tokens[] = {1, 300, 8, 33, 2, 130, 1, 64};
  Tensor workspace = *gpu_->allocate(DType::u8, {made.workspace_bytes});
  std::vector<Tensor> inputs, there, results;
  for (const std::int64_t m : tokens) {
    inputs.push_back(input(m, static_cast<int>(m % 2)));
    there.push_back(*inputs.back().to(*gpu_));
  }
  for (int i = 0; i < 40; ++i) {
    const auto at = static_cast<std::size_t>(i) % std::size(tokens);
    results.push_back(*gpu_->allocate(DType::bf16, {tokens[at], kWidth}));
  }
  for (int i = 0; i < 40; ++i) {
    const auto at = static_cast<std::size_t>(i) % std::size(tokens);
    const Status status = made.layers[static_cast<std::size_t>(i) % kDepth].forward(
        std::as_const(there[at]).view(), results[static_cast<std::size_t>(i)].view(), workspace.as<std::byte>());
    ASSERT_TRUE(status.ok()) << message(status);
  }
  ASSERT_TRUE(gpu_->synchronize().ok());
  for (int i = 0; i < 40; ++i) {
    const auto at = static_cast<std::size_t>(i) % std::size(tokens);
    Tensor y = *cpu_->allocate(DType::bf16, {tokens[at], kWidth});
    ASSERT_TRUE(
        on_cpu.layers[static_cast<std::size_t>(i) % kDepth].forward(std::as_const(inputs[at]).view(), y.view()).ok());
    const Tensor got = *results[static_cast<std::size_t>(i)].to(*cpu_);
    ASSERT_EQ(std::memcmp(got.data(), y.data(), y.bytes()), 0) << "call " << i << ", " << tokens[at] << " tokens";
  }
}

}  // namespace
}  // namespace tern::test
