// quantize() and dequantize() on a GPU, of GPU and host tensors: the same bits as on a CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/fmt.h"
#include "lab/random_weights.h"
#include "plan/context_state.h"
#include "tern/quantize.h"
#include "tests/support/gpu_fixture.h"

namespace tern {
namespace {

class QuantizeOnGpu : public test::GpuTest {
 protected:
  [[nodiscard]] Tensor random(DType dtype, const Shape& shape) const {
    Tensor x = *Tensor::allocate(host_memory(), dtype, shape);
    lab::fill_random_weights(cpu_->state().threads, 1, dtype, x.data(), x.elements());
    return x;
  }
  static void expect_same(const QuantizedTensor& got, const QuantizedTensor& want) {
    ASSERT_EQ(got.codes.bytes(), want.codes.bytes());
    EXPECT_EQ(std::memcmp(got.codes.data(), want.codes.data(), want.codes.bytes()), 0);
    ASSERT_EQ(got.scales.bytes(), want.scales.bytes());
    EXPECT_EQ(std::memcmp(got.scales.data(), want.scales.data(), want.scales.bytes()), 0);
  }
};

TEST_F(QuantizeOnGpu, PiecesOfAHostTensor) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::f16})
    for (const Granularity g : {Granularity::row(), Granularity::group(128), Granularity::group(100)})
      for (const Scheme scheme : {Scheme::absmean, Scheme::absmax, Scheme::int2}) {
        const Tensor x = random(dtype, {1111, 1500});
        const QuantizeOptions options{.scheme = scheme, .granularity = g, .device_bytes = std::size_t{3} << 20};
        auto got = quantize(*gpu_, x.view(), options), want = quantize(*cpu_, x.view(), options);
        ASSERT_TRUE(got.ok()) << got.error().str();
        EXPECT_NE(got->kernel.find("cuda"), std::string::npos);
        expect_same(*got, *want);
      }
}

// A call fails before it begins if the GPU has too little free memory. It succeeds once the memory is freed.
TEST_F(QuantizeOnGpu, MemoryIsAskedForFirst) {
  const Tensor x = random(DType::f32, {16384, 8192});  // 512 MiB
  const QuantizeOptions options{.granularity = Granularity::row(), .device_bytes = std::size_t{512} << 20};
  {
    const auto free = static_cast<std::int64_t>(gpu_->memory_info()->free_bytes);
    const auto most = gpu_->allocate(DType::u8, {free - (std::int64_t{560} << 20)});
    ASSERT_TRUE(most.ok()) << most.error().str();
    const auto refused = quantize(*gpu_, x.view(), options);
    ASSERT_EQ(refused.code(), Code::insufficient_memory);
    EXPECT_NE(refused.error().message.find("and a fifth more are needed"), std::string::npos)
        << refused.error().message;
    QuantizeOptions unasked = options;
    unasked.device_bytes = std::size_t{64} << 20;
    EXPECT_TRUE(quantize(*gpu_, x.view(), unasked).ok());
    unasked.ensure_ready = false;
    EXPECT_TRUE(quantize(*gpu_, x.view(), unasked).ok());
  }
  ASSERT_TRUE(gpu_->memory()->release_unused().ok());
  EXPECT_TRUE(quantize(*gpu_, x.view(), options).ok());
}

// Validates results on the host and results on the GPU.
TEST_F(QuantizeOnGpu, WhatWasWrittenIsLookedAtWhenAsked) {
  const Tensor x = random(DType::f32, {300, 1024});
  const QuantizeOptions options{.granularity = Granularity::group(128), .validate = true};
  auto from_host = quantize(*gpu_, x.view(), options);
  ASSERT_TRUE(from_host.ok()) << from_host.error().str();
  const Tensor there = *x.to(*gpu_);
  auto from_gpu = quantize(*gpu_, there.view(), options);
  ASSERT_TRUE(from_gpu.ok()) << from_gpu.error().str();
  EXPECT_EQ(from_gpu->codes.view().device.kind, DeviceKind::cuda);
}

TEST_F(QuantizeOnGpu, PiecesOfRowsThatAreTooLong) {
  const Tensor x = random(DType::f32, {3, 1'000'003});
  for (const Format format : {Format::i2, Format::b3, Format::i8}) {
    const QuantizeOptions options{
        .granularity = Granularity::group(96), .format = format, .device_bytes = std::size_t{2} << 20};
    auto got = quantize(*gpu_, x.view(), options), want = quantize(*cpu_, x.view(), options);
    ASSERT_TRUE(got.ok()) << got.error().str();
    expect_same(*got, *want);
  }
  // A row, or a tensor, must fit.
  for (const Granularity g : {Granularity::row(), Granularity::tensor()}) {
    auto none = quantize(*gpu_, x.view(), {.granularity = g, .device_bytes = std::size_t{2} << 20});
    ASSERT_EQ(none.code(), Code::insufficient_memory);
    const auto* shortage = none.error().as<MemoryShortage>();
    ASSERT_NE(shortage, nullptr);
    EXPECT_EQ(shortage->free_bytes, std::size_t{2} << 20);
    EXPECT_NE(none.error().message.find(fmt::format("give device_bytes {} or more", shortage->needed_bytes)),
              std::string::npos)
        << none.error().message;
    // What it says it needs is enough, and a byte less is not.
    EXPECT_EQ(quantize(*gpu_, x.view(), {.granularity = g, .device_bytes = shortage->needed_bytes - 1}).code(),
              Code::insufficient_memory);
    auto got = quantize(*gpu_, x.view(), {.granularity = g, .device_bytes = shortage->needed_bytes});
    ASSERT_TRUE(got.ok()) << got.error().str();
  }
  auto whole = quantize(*gpu_, x.view()), want = quantize(*cpu_, x.view());
  ASSERT_TRUE(whole.ok()) << whole.error().str();
  expect_same(*whole, *want);
}

TEST_F(QuantizeOnGpu, GivenScalesQualityAndStridedRows) {
  const Tensor x = random(DType::f32, {600, 1024});
  const ConstTensorView part(x.data(), DType::f32, {600, 1000}, {1024, 1}, {});
  std::vector<float> scales(600 * 8);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = 0.01F + 1e-5F * static_cast<float>(i);
  for (const std::span<const float> given : {std::span<const float>(scales), std::span<const float>(scales).first(1)}) {
    const QuantizeOptions options{.scheme = Scheme::int2,
                                  .granularity = Granularity::group(128),
                                  .scale = given,
                                  .measure_quality = true,
                                  .device_bytes = std::size_t{1} << 20};
    auto got = quantize(*gpu_, part, options), want = quantize(*cpu_, part, options);
    ASSERT_TRUE(got.ok()) << got.error().str();
    expect_same(*got, *want);
    EXPECT_EQ(got->quality->sqnr_db, want->quality->sqnr_db);
  }
  scales[77] = 0;
  EXPECT_EQ(
      quantize(*gpu_, part, {.scheme = Scheme::int2, .granularity = Granularity::group(128), .scale = scales}).code(),
      Code::invalid_scale);
}

TEST_F(QuantizeOnGpu, TheFirstBadValueOfAllPieces) {
  Tensor x = random(DType::f32, {2000, 1000});
  for (const std::int64_t at : {1'999'999, 1'234'567, 1'234'570})
    x.as<float>()[static_cast<std::size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
  const QuantizeOptions options{.granularity = Granularity::row(), .device_bytes = std::size_t{1} << 20};
  const auto found = quantize(*gpu_, x.view(), options);
  ASSERT_EQ(found.code(), Code::non_finite);
  EXPECT_EQ(found.error().index, 1'234'567);
  EXPECT_NE(found.error().message.find("x[1234, 567]"), std::string::npos) << found.error().message;
  // The next call does not see the finding.
  EXPECT_TRUE(quantize(*gpu_, random(DType::f32, {100, 100}).view(), options).ok());
}

TEST_F(QuantizeOnGpu, OnTheDeviceAndBack) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = random(dtype, {257, 1030});
    auto there = x.to(*gpu_);
    for (const Granularity g : {Granularity::tensor(), Granularity::row(), Granularity::group(128)}) {
      auto on_gpu = quantize(*gpu_, there->view(), {.granularity = g});
      auto want = quantize(*cpu_, x.view(), {.granularity = g});
      ASSERT_TRUE(on_gpu.ok()) << on_gpu.error().str();
      auto y = dequantize(*gpu_, *on_gpu, dtype), y_want = dequantize(*cpu_, *want, dtype);
      ASSERT_TRUE(y.ok()) << y.error().str();
      EXPECT_EQ(y->view().device.kind, DeviceKind::cuda);
      auto y_back = y->to(*cpu_);
      EXPECT_EQ(std::memcmp(y_back->data(), y_want->data(), y_want->bytes()), 0);
      // From codes on the host to a tensor on the host.
      auto from_host = dequantize(*gpu_, *want, dtype);
      ASSERT_TRUE(from_host.ok()) << from_host.error().str();
      EXPECT_EQ(from_host->view().device.kind, DeviceKind::cpu);
      EXPECT_EQ(std::memcmp(from_host->data(), y_want->data(), y_want->bytes()), 0);
    }
  }
  EXPECT_EQ(quantize(*gpu_, {nullptr, DType::f32, {0, 3}}).code(), Code::empty_input);
}

TEST_F(QuantizeOnGpu, PinnedMemoryGoesWithoutStaging) {
  auto pinned = pinned_memory();
  ASSERT_TRUE(pinned.ok()) << pinned.error().str();
  Tensor x = *Tensor::allocate(*pinned, DType::f32, {500, 1000});
  lab::fill_random_weights(cpu_->state().threads, 3, DType::f32, x.data(), x.elements());
  const QuantizeOptions options{.granularity = Granularity::row(), .device_bytes = std::size_t{1} << 20};
  auto got = quantize(*gpu_, x.view(), options), want = quantize(*cpu_, x.view(), options);
  ASSERT_TRUE(got.ok());
  expect_same(*got, *want);
}

}  // namespace
}  // namespace tern
