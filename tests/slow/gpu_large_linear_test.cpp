// linear on a GPU with more than 2^31 bytes of tiles or tokens, whose offsets do not fit 32 bits.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/gpu.h"
#include "tests/support/linear_checks.h"

namespace tern::test {
namespace {

constexpr std::int64_t kLimit = std::int64_t{1} << 31;

class LargeLinear : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu() == nullptr) GTEST_SKIP() << "no CUDA device";
    const auto info = gpu()->memory_info();
    ASSERT_TRUE(info.ok()) << info.error().str();
    if (info->free_bytes < std::size_t{40} << 30) GTEST_SKIP() << "less than 40 GiB of the GPU are free";
  }
  // Fills many bytes by repeating 1,000,003 random elements of `size` bytes. The number is prime, so that rows differ.
  template <class Byte>
  static void fill(std::span<std::uint8_t> bytes, std::size_t size, Byte byte) {
    std::vector<std::uint8_t> some(size * 1'000'003);
    for (std::size_t i = 0; i < some.size(); ++i) some[i] = byte(i);
    for (std::size_t at = 0; at < bytes.size(); at += some.size())
      std::memcpy(bytes.data() + at, some.data(), std::min(some.size(), bytes.size() - at));
  }
  static Tensor trits(std::int64_t n, std::int64_t k, Random& random) {
    Tensor codes = *Tensor::allocate(host_memory(), DType::u8, {n, row_bytes(Format::i2, k)});
    fill(codes.as<std::uint8_t>(), 1, [&](std::size_t) {
      int byte = 0;
      for (int j = 0; j < 4; ++j) byte |= static_cast<int>(random.below(3)) << (2 * j);
      return static_cast<std::uint8_t>(byte);
    });
    return codes;
  }
  static PackedWeights pack(const Tensor& codes, const std::vector<float>& scales, std::int64_t n, std::int64_t k,
                            const Granularity& granularity) {
    auto packed =
        PackedWeights::pack(*gpu(), codes.view(),
                            {scales.data(), DType::f32, {static_cast<std::int64_t>(scales.size())}}, n, k, granularity);
    EXPECT_TRUE(packed.ok()) << packed.error().str();
    return packed.ok() ? *packed : PackedWeights();
  }
  // Runs a problem of one matrix; returns y on the host.
  static Tensor run(const Linear::Problem& p, const Tensor& x, const Tensor* x_scales, const PackedWeights& weights) {
    const std::int64_t m = x.shape()[0];
    Tensor y = *gpu()->allocate(p.matrices[0].y_dtype, {m, p.matrices[0].n});
    const auto plan = LinearPlan::select(*gpu(), p);
    EXPECT_TRUE(plan.ok()) << plan.error().str();
    Tensor workspace = *gpu()->allocate(DType::u8, {static_cast<std::int64_t>(plan->workspace_bytes())});
    const Linear::Output output{.weights = weights, .y = y.view()};
    Linear::Args args{.x = x.view(), .outputs = {&output, 1}};
    if (x_scales != nullptr) args.x_scales = x_scales->view();
    const Status status = plan->run(gpu()->stream(), workspace.as<std::byte>(), args);
    EXPECT_TRUE(status.ok()) << status.error().str();
    const Status found = gpu()->stream().synchronize();
    EXPECT_TRUE(found.ok()) << found.error().str();
    return *y.to(*Context::open(DeviceId{}));
  }
  static std::vector<std::int8_t> row_of(const Tensor& codes, std::int64_t row, std::int64_t k) {
    std::vector<std::int8_t> trits(static_cast<std::size_t>(k));
    read_codes(Format::i2, codes.as<std::uint8_t>().data() + row * row_bytes(Format::i2, k), 0, k, trits.data());
    return trits;
  }
  // The index to check in turn i: the last one, then those around the offset of 2^31 bytes, then random ones.
  static std::int64_t place(int i, std::int64_t count, std::int64_t line_bytes, Random& random) {
    const std::int64_t edge = kLimit / line_bytes;
    if (i == 0) return count - 1;
    if (i < 6 && edge + i - 3 < count) return edge + i - 3;
    return random.below(count);
  }
};

// 262,200 x 33,000 weights are 2.16 GB of tiles.
TEST_F(LargeLinear, Tiles) {
  const std::int64_t n = 262'200, k = 33'000;
  ASSERT_GT(TileMma::of(n, k, 2).bytes(), kLimit);
  Random random(61);
  const Tensor codes = trits(n, k, random);
  for (const Granularity& granularity : {Granularity::tensor(), Granularity::group(128)}) {
    const bool exact = granularity.kind == Granularity::Kind::tensor;
    const std::int64_t groups = exact ? 1 : (k + 127) / 128;
    std::vector<float> scales(static_cast<std::size_t>(exact ? 1 : n * groups));
    for (float& s : scales) s = 0.5F + static_cast<float>(random.below(64)) / 64;
    const PackedWeights weights = pack(codes, scales, n, k, granularity);
    ASSERT_FALSE(weights.empty());
    for (const std::int64_t m : {1, 5, 40, 300}) {
      Linear::Problem p{.m_max = m, .k = k};
      p.matrices = {{.n = n, .granularity = granularity, .y_dtype = exact ? DType::i32 : DType::f32}};
      Tensor x = *Tensor::allocate(host_memory(), DType::i8, {m, k}),
             s = *Tensor::allocate(host_memory(), DType::f32, {m});
      for (std::int8_t& v : x.as<std::int8_t>()) v = static_cast<std::int8_t>(random.below(256) - 128);
      for (float& v : s.as<float>()) v = 4;
      const Tensor there = *x.to(*gpu()), s_there = *s.to(*gpu());
      const Tensor y = run(p, there, &s_there, weights);
      for (int i = 0; i < 60; ++i) {
        const std::int64_t row = place(i, n, (k + 127) / 128 * 32, random), token = i == 0 ? m - 1 : random.below(m);
        const std::vector<std::int8_t> w = row_of(codes, row, k);
        double want = 0, size = 0;
        for (std::int64_t j = 0; j < k; ++j) {
          const double scale = exact ? 1 : scales[static_cast<std::size_t>(row * groups + j / 128)] / 4.0;
          const double v = x.as<std::int8_t>()[static_cast<std::size_t>(token * k + j)] * scale;
          want += v * w[static_cast<std::size_t>(j)];
          size += std::fabs(v);
        }
        const auto at = static_cast<std::size_t>(token * n + row);
        if (exact)
          ASSERT_EQ(y.as<std::int32_t>()[at], want) << m << " tokens, y[" << token << ", " << row << ']';
        else
          ASSERT_NEAR(y.as<float>()[at], want, 1e-5 * size + half_ulp(DType::f32, want))
              << m << " tokens, y[" << token << ", " << row << ']';
      }
    }
  }
}

// 66,000 tokens of 33,024 bytes, and of 33,001 bytes, which are first copied to aligned rows.
TEST_F(LargeLinear, BytesOfTokens) {
  Random random(62);
  const std::int64_t n = 72;
  for (const std::int64_t k : {33'024, 33'001}) {
    const std::int64_t m = 66'000;
    ASSERT_GT(m * k, kLimit);
    const Tensor codes = trits(n, k, random);
    Tensor x = *Tensor::allocate(host_memory(), DType::i8, {m, k});
    fill(x.as<std::uint8_t>(), 1, [&](std::size_t) { return static_cast<std::uint8_t>(random.below(256)); });
    const Tensor there = *x.to(*gpu());
    Linear::Problem p{.m_max = m, .k = k};
    p.matrices = {{.n = n, .y_dtype = DType::i32}};
    const Tensor y = run(p, there, nullptr, pack(codes, {1.0F}, n, k, Granularity::tensor()));
    for (int i = 0; i < 200; ++i) {
      const std::int64_t token = place(i, m, k, random), row = i == 0 ? n - 1 : random.below(n);
      const std::vector<std::int8_t> w = row_of(codes, row, k);
      std::int32_t want = 0;
      for (std::int64_t j = 0; j < k; ++j)
        want += x.as<std::int8_t>()[static_cast<std::size_t>(token * k + j)] * w[static_cast<std::size_t>(j)];
      ASSERT_EQ(y.as<std::int32_t>()[static_cast<std::size_t>(token * n + row)], want)
          << "k " << k << ", y[" << token << ", " << row << ']';
    }
  }
}

// 70,000 tokens of 16,400 bf16: more than 2^31 bytes, both quantized to int8 and in the float mode.
TEST_F(LargeLinear, FloatTokens) {
  Random random(63);
  const std::int64_t n = 72, m = 70'000, k = 16'400;
  ASSERT_GT(m * k * 2, kLimit);
  const Tensor codes = trits(n, k, random);
  Tensor x = *Tensor::allocate(host_memory(), DType::bf16, {m, k});
  std::uint16_t last = 0;
  fill(x.as<std::uint8_t>(), 2, [&](std::size_t i) {  // -2 to 2, low byte first
    if (i % 2 == 0) last = half::to_bf16(static_cast<float>(random.below(511) - 255) / 128);
    return static_cast<std::uint8_t>(i % 2 == 0 ? last & 0xFF : last >> 8);
  });
  const Tensor there = *x.to(*gpu());
  const Granularity granularity = Granularity::group(128);
  const std::int64_t groups = (k + 127) / 128;
  std::vector<float> scales(static_cast<std::size_t>(n * groups));
  for (float& s : scales) s = 0.5F + static_cast<float>(random.below(64)) / 64;
  const PackedWeights grouped = pack(codes, scales, n, k, granularity),
                      whole = pack(codes, {1.0F}, n, k, Granularity::tensor());
  Linear::Problem floats{.m_max = m, .k = k, .x_dtype = DType::bf16, .math = LinearMath::w2_float}, bytes = floats;
  floats.matrices = {{.n = n, .granularity = granularity}};
  bytes.math = LinearMath::w2a8;
  bytes.matrices = {{.n = n}};
  const Tensor y = run(floats, there, nullptr, grouped), y_bytes = run(bytes, there, nullptr, whole);
  for (int i = 0; i < 200; ++i) {
    const std::int64_t token = place(i, m, 2 * k, random), row = i == 0 ? n - 1 : random.below(n);
    const std::vector<std::int8_t> w = row_of(codes, row, k);
    std::vector<double> v(static_cast<std::size_t>(k));
    double want = 0, size = 0, top = 1e-5;
    for (std::int64_t j = 0; j < k; ++j) {
      double& e = v[static_cast<std::size_t>(j)];
      e = activation_quantize::read(x.data(), DType::bf16, token * k + j);
      const double t = e * w[static_cast<std::size_t>(j)] * scales[static_cast<std::size_t>(row * groups + j / 128)];
      want += t;
      size += std::fabs(t);
      top = std::fmax(top, std::fabs(e));
    }
    const auto at = static_cast<std::size_t>(token * n + row);
    ASSERT_NEAR(y.as<float>()[at], want, 1e-5 * size + half_ulp(DType::f32, want))
        << "y[" << token << ", " << row << ']';
    // token_i8, with every step rounded as in docs/numerics.md.
    const float s = 127.0F / static_cast<float>(top);
    std::int32_t dot = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      const float q = std::nearbyintf(static_cast<float>(v[static_cast<std::size_t>(j)]) * s);
      dot += static_cast<int>(q) * w[static_cast<std::size_t>(j)];
    }
    ASSERT_EQ(y_bytes.as<float>()[at], static_cast<float>(dot) / s) << "y[" << token << ", " << row << ']';
  }
}

}  // namespace
}  // namespace tern::test
