// The GPU's linear kernels against the CPU's: many small problems, and weights of more than 2^31 elements.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/gpu.h"
#include "tests/support/linear_checks.h"

namespace tern::test {
namespace {

class GpuLinear : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu() == nullptr) GTEST_SKIP() << "no CUDA device";
  }
};

// Compares every listed GPU kernel with the CPU's best.
TEST_F(GpuLinear, AHundredThousandRandomProblems) {
  Random random(77);
  const auto epilogues = all_epilogues();
  constexpr Format kFormats[] = {Format::i2, Format::s8, Format::s4};
  std::vector<GpuAndCpu> all;
  for (const Format format : kFormats) {
    all.push_back(gpu_and_cpu_kernels(format));
    ASSERT_FALSE(all.back().cuda.empty());
  }
  for (int i = 0; i < 100'000; ++i) {
    const bool many = random.below(8) == 0;
    const auto which = static_cast<std::size_t>(random.below(3));
    const auto& [cuda_kernels, cpu] = all[which];
    Linear::Problem p{
        .m_max = 1 + random.below(many ? 300 : 20), .k = random.below(many ? 300 : 700), .format = kFormats[which]};
    const DType types[] = {DType::i8, DType::f32, DType::f16, DType::bf16};
    p.x_dtype = types[random.below(4)];
    Linear::Matrix matrix = epilogues[static_cast<std::size_t>(random.below(25))];
    matrix.n = 1 + random.below(many ? 200 : 80);
    matrix.granularity = random.below(2) == 0 ? Granularity::tensor() : Granularity::row();
    p.matrices.push_back(matrix);
    LinearCase c = make_case(p, random, static_cast<X>(random.below(5)), static_cast<W>(random.below(3)));
    c.x_gap = random.below(3) == 0 ? random.below(5) : 0;
    c.y_gap = random.below(3) == 0 ? random.below(5) : 0;
    const auto want = run_linear(cpu.entry, c);
    ASSERT_TRUE(want.status.ok()) << want.status.error().str();
    const NamedKernel& kernel = cuda_kernels[static_cast<std::size_t>(i) % cuda_kernels.size()];
    const auto got = run_linear(kernel.entry, c);
    ASSERT_TRUE(got.status.ok()) << kernel.name << got.status.error().str();
    ASSERT_EQ(got.y, want.y) << kernel.name << ' ' << describe(c) << " problem " << i;
  }
}

void fill_codes(Tensor& codes, Format format, Random& random) {
  const std::span bytes(static_cast<std::uint8_t*>(codes.data()), codes.bytes());
  for (std::uint8_t& byte : bytes) {
    if (format == Format::s8) {
      byte = static_cast<std::uint8_t>(random.next());
      continue;
    }
    byte = 0x55;
    for (int j = 0; j < 4; ++j) byte = static_cast<std::uint8_t>(byte + ((random.below(3) - 1) * (1 << (2 * j))));
  }
}

// 66,000 x 33,000 weights: indices of weights, offsets of results with many tokens and, for s8, of bytes need 32 bits.
class GpuLinearOf : public GpuLinear, public ::testing::WithParamInterface<Format> {};
INSTANTIATE_TEST_SUITE_P(Formats, GpuLinearOf, ::testing::Values(Format::i2, Format::s8),
                         [](const auto& param) { return std::string(name(param.param)); });
TEST_P(GpuLinearOf, MoreThanTwoToThe31) {
  const Format format = GetParam();
  const std::int64_t n = 66'000, k = 33'000, line = row_bytes(format, k);
  Random random(5);
  Tensor codes = *Tensor::allocate(host_memory(), code_dtype(format), {n, line});
  fill_codes(codes, format, random);
  std::vector<float> scales(static_cast<std::size_t>(n));
  for (float& s : scales) s = odd_scale(random);
  const auto packed = PackedWeights::pack(*gpu(), std::as_const(codes).view(), {scales.data(), DType::f32, {n}}, n, k,
                                          Granularity::row(), {}, format);
  ASSERT_TRUE(packed.ok()) << packed.error().str();
  for (const std::int64_t m : {1, 5, 100, 40'000}) {
    Linear::Problem p{.m_max = m, .k = k, .format = format};
    p.matrices = {{.n = n, .granularity = Granularity::row(), .y_dtype = DType::i32}};
    Tensor x = *Tensor::allocate(host_memory(), DType::i8, {m, k});
    for (std::int8_t& v : x.as<std::int8_t>()) v = static_cast<std::int8_t>(random.below(256) - 128);
    const Tensor there = *x.to(*gpu());
    Tensor y = *gpu()->allocate(DType::i32, {m, n});
    const auto plan = LinearPlan::select(*gpu(), p);
    ASSERT_TRUE(plan.ok()) << plan.error().str();
    Tensor workspace = *gpu()->allocate(DType::u8, {static_cast<std::int64_t>(plan->workspace_bytes())});
    const Linear::Output output{.weights = *packed, .y = y.view()};
    ASSERT_TRUE(
        plan->run(gpu()->stream(), workspace.as<std::byte>(), {.x = there.view(), .outputs = {&output, 1}}).ok());
    ASSERT_TRUE(gpu()->stream().synchronize().ok());
    // Check some of the results, including the last.
    for (int i = 0; i < 200; ++i) {
      const std::int64_t token = i == 0 ? m - 1 : random.below(m), row = i == 0 ? n - 1 : random.below(n);
      std::int32_t want = 0, got = 0;
      for (std::int64_t j = 0; j < k; ++j)
        want += x.as<std::int8_t>()[static_cast<std::size_t>(token * k + j)] *
                read_code(format, static_cast<const std::uint8_t*>(codes.data()) + row * line, j);
      ASSERT_TRUE(gpu()
                      ->copy({&got, DType::i32, {1}},
                             ConstTensorView(y.as<std::int32_t>().data() + token * n + row, DType::i32, {1},
                                             gpu()->device().id),
                             gpu()->stream())
                      .ok());
      ASSERT_TRUE(gpu()->stream().synchronize().ok());
      ASSERT_EQ(got, want) << m << " tokens, y[" << token << ", " << row << ']';
    }
  }
}

}  // namespace
}  // namespace tern::test
