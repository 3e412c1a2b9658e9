// Packing on a GPU while other work runs: every call gets its own findings and no other call's.
#include <cmath>
#include <cstring>
#include <thread>

#include "tern/precision.h"
#include "tests/support/gpu_fixture.h"
#include "tests/support/linear_weights.h"

namespace tern::test {
namespace {

class PackingOnGpu : public GpuTest {
 protected:
  [[nodiscard]] Tensor on_gpu(const void* from, DType dtype, const Shape& shape) const {
    Tensor host = *Tensor::allocate(host_memory(), dtype, shape);
    std::memcpy(host.data(), from, host.bytes());
    return *host.to(*gpu_);
  }
  // Makes one code a 3.
  static void spoil(Weights& w, std::int64_t row, std::int64_t column) {
    const std::int64_t at = row * row_bytes(w.format, w.k) + column / 4;
    w.codes[static_cast<std::size_t>(at)] |= static_cast<std::uint8_t>(3 << (2 * (column % 4)));
  }
  // Starts a call on the first stream that will find a token that is not finite, and does not wait for it.
  struct Pending {
    BitLinear layer;
    Tensor x, y, workspace;
  };
  [[nodiscard]] Pending leave_a_finding() const {
    const Weights w = make_weights(40, 300);
    auto packed = PackedWeights::pack(*gpu_, w.code_view(), w.scale_view(), w.n, w.k, w.granularity);
    auto layer = BitLinear::make(*gpu_, *packed);
    std::vector<float> x(300, 1.0F);
    x[kBad] = NAN;
    Tensor there = on_gpu(x.data(), DType::f32, {1, 300}), y = *gpu_->allocate(DType::f32, {1, 40});
    Tensor workspace = *gpu_->allocate(DType::u8, {static_cast<std::int64_t>(layer->workspace_bytes())});
    EXPECT_TRUE(layer->forward(std::as_const(there).view(), y.view(), workspace.as<std::byte>()).ok());
    return {*std::move(layer), std::move(there), std::move(y), std::move(workspace)};
  }
  void expect_the_finding() const {
    const Status found = gpu_->stream().synchronize();
    ASSERT_EQ(found.code(), Code::non_finite) << message(found);
    EXPECT_EQ(found.error().index, kBad);
    EXPECT_TRUE(gpu_->synchronize().ok());  // it is reported only once
  }
  static constexpr std::int64_t kBad = 123;
};

// Threads pack good and bad codes at the same time, from the host and from the GPU; each bad code has its own place.
TEST_F(PackingOnGpu, EachThreadGetsItsOwnAnswer) {
  constexpr int kThreads = 8, kTimes = 12;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const std::int64_t n = 64 + 16 * t, k = 500 + 4 * t;
      const Weights good = make_weights(n, k);
      const std::uint64_t checksum =
          PackedWeights::pack(*cpu_, good.code_view(), good.scale_view(), n, k, good.granularity)->checksum();
      for (int i = 0; i < kTimes; ++i) {
        Weights w = good;
        const bool bad = (t + i) % 2 == 0;
        const std::int64_t row = 5 + 3 * t, column = 100 + 7 * t + i;
        if (bad) spoil(w, row, column);
        const bool there = i % 3 == 0;
        Tensor codes;
        if (there) codes = on_gpu(w.codes.data(), DType::u8, {n, row_bytes(w.format, k)});
        const ConstTensorView view = there ? std::as_const(codes).view() : w.code_view();
        auto packed = PackedWeights::pack(*gpu_, view, w.scale_view(), n, k, w.granularity);
        if (!bad) {
          ASSERT_TRUE(packed.ok()) << "thread " << t << ": " << message(packed);
          EXPECT_EQ(packed->checksum(), checksum);
        } else {
          ASSERT_EQ(packed.code(), Code::invalid_quantized_value) << "thread " << t << ": " << message(packed);
          EXPECT_EQ(packed.error().index, row * k + column) << "thread " << t;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(gpu_->synchronize().ok());  // no finding is left for other calls
}

// Several pieces go through two streams. A bad code in any of them is found and does not affect later calls.
TEST_F(PackingOnGpu, ABadCodeInAnyPiece) {
  const std::int64_t n = 9000, k = 8192;  // 18 MiB: two pieces
  const Weights good = make_weights(n, k);
  for (const std::int64_t row : {std::int64_t{0}, n / 2, n - 1}) {
    Weights w = good;
    spoil(w, row, k - 1);
    auto packed = PackedWeights::pack(*gpu_, w.code_view(), w.scale_view(), n, k, w.granularity);
    ASSERT_EQ(packed.code(), Code::invalid_quantized_value) << message(packed);
    EXPECT_EQ(packed.error().index, row * k + k - 1);
    EXPECT_TRUE(gpu_->synchronize().ok());
    EXPECT_TRUE(PackedWeights::pack(*gpu_, good.code_view(), good.scale_view(), n, k, w.granularity).ok());
  }
}

// Calls that wait internally must not consume the unread finding of an earlier call.
TEST_F(PackingOnGpu, APendingFindingSurvives) {
  const Weights w = make_weights(33, 300);
  Weights bad = w;
  spoil(bad, 20, 30);
  const auto pack = [&](const Weights& of) {
    return PackedWeights::pack(*gpu_, of.code_view(), of.scale_view(), of.n, of.k, of.granularity);
  };
  {
    const Pending pending = leave_a_finding();
    EXPECT_TRUE(pack(w).ok());
    expect_the_finding();
  }
  {
    const Pending pending = leave_a_finding();
    EXPECT_EQ(pack(bad).code(), Code::invalid_quantized_value);
    expect_the_finding();
  }
  {
    const Tensor codes = on_gpu(w.codes.data(), DType::u8, {33, 75}),
                 scales = on_gpu(w.scales.data(), DType::f32, {33});
    const Pending pending = leave_a_finding();
    EXPECT_TRUE(PackedWeights::pack(*gpu_, codes.view(), scales.view(), w.n, w.k, w.granularity).ok());
    expect_the_finding();
  }
  {
    auto packed = pack(w);
    const std::vector<float> bias(33, 1.0F);
    const Pending pending = leave_a_finding();
    EXPECT_TRUE(BitLinear::make(*gpu_, *packed, {.bias = bias}).ok());
    expect_the_finding();
  }
  {
    std::vector<float> values(33 * 300, 0.5F), x(300, 2.0F);
    const auto quantized = quantize(*cpu_, {values.data(), DType::f32, {33, 300}});
    const Pending pending = leave_a_finding();
    const auto report = validate_precision_accuracy(*gpu_, *quantized, rows(x, 300));
    EXPECT_TRUE(report.ok()) << message(report);
    expect_the_finding();
  }
  {
    std::vector<float> values(33 * 300, 0.5F);
    const Pending pending = leave_a_finding();
    EXPECT_TRUE(quantize(*gpu_, {values.data(), DType::f32, {33, 300}}).ok());
    values[77] = NAN;
    const auto refused = quantize(*gpu_, {values.data(), DType::f32, {33, 300}});
    ASSERT_EQ(refused.code(), Code::non_finite);
    EXPECT_EQ(refused.error().index, 77);
    expect_the_finding();
  }
}

// Memory that the caller gives must be on the context's device.
TEST_F(PackingOnGpu, IntoMemoryOfTheRightDevice) {
  const Weights w = make_weights(33, 300);
  const auto into = [&](const Context& on, std::span<std::byte> memory) {
    return PackedWeights::pack(on, w.code_view(), w.scale_view(), w.n, w.k, w.granularity, memory);
  };
  const auto bytes = static_cast<std::int64_t>(*PackedWeights::packed_bytes(*gpu_, w.n, w.k, w.granularity));
  Tensor there = *gpu_->allocate(DType::u8, {bytes}), here = *cpu_->allocate(DType::u8, {bytes + 256});
  Tensor pinned = *Tensor::allocate(*pinned_memory(), DType::u8, {bytes});
  EXPECT_TRUE(into(*gpu_, there.as<std::byte>()).ok());
  const auto skip = (256 - reinterpret_cast<std::uintptr_t>(here.data()) % 256) % 256;
  for (const std::span<std::byte> wrong : {here.as<std::byte>().subspan(skip), pinned.as<std::byte>()}) {
    const auto refused = into(*gpu_, wrong);
    ASSERT_EQ(refused.code(), Code::invalid_argument);
    EXPECT_NE(message(refused).find("the memory lies on cpu, the context is on cuda:0"), std::string::npos)
        << message(refused);
  }
  const auto refused = into(*cpu_, there.as<std::byte>());
  ASSERT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(message(refused).find("the memory lies on cuda:0, the context is on cpu"), std::string::npos)
      << message(refused);
}

// pack() must wait for codes that the first stream is still writing when it is called.
TEST_F(PackingOnGpu, ComesBehindTheFirstStream) {
  const Weights w = make_weights(2048, 4096);
  const Tensor codes = on_gpu(w.codes.data(), DType::u8, {w.n, w.k / 4}),
               scales = on_gpu(w.scales.data(), DType::f32, {w.n});
  Tensor filler = *gpu_->allocate(DType::u8, {1 << 28}), other = *gpu_->allocate(DType::u8, {1 << 28});
  Tensor late = *gpu_->allocate(DType::u8, {w.n, w.k / 4});
  for (int i = 0; i < 20; ++i)  // about 2 ms of copies before it
    ASSERT_TRUE(gpu_->copy(other.view(), std::as_const(filler).view(), gpu_->stream()).ok());
  ASSERT_TRUE(gpu_->copy(late.view(), codes.view(), gpu_->stream()).ok());
  const auto packed = PackedWeights::pack(*gpu_, std::as_const(late).view(), scales.view(), w.n, w.k, w.granularity);
  ASSERT_TRUE(packed.ok()) << message(packed);
  EXPECT_EQ(packed->checksum(),
            PackedWeights::pack(*cpu_, w.code_view(), w.scale_view(), w.n, w.k, w.granularity)->checksum());
}

}  // namespace
}  // namespace tern::test
