// Float modes with many tokens: every GPU kernel is within the stated bound of float64, and exact matrices of the same
// problem have the CPU's bits. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include "tests/support/linear_checks.h"

namespace tern::test {
namespace {

class ManyFloats : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu() == nullptr) GTEST_SKIP() << "no CUDA device";
    use_kernels_of(Format::i2);
  }
  void use_kernels_of(Format format) {
    kernels_ = gpu_and_cpu_kernels(format);
    ASSERT_FALSE(kernels_.cuda.empty());
  }
  // Compares the first `kernels` kernels of the list with the bound. Large problems run the best kernel only.
  void expect_good(const LinearCase& c, std::size_t kernels) {
    const Truth truth = truth_of(c);
    const auto want = run_linear(kernels_.cpu.entry, c, 8);
    ASSERT_TRUE(want.status.ok()) << want.status.error().str();
    expect_within_bound(c, truth, kernels_.cpu, want);
    for (std::size_t i = 0; i < std::min(kernels, kernels_.cuda.size()); ++i) {
      const auto got = run_linear(kernels_.cuda[i].entry, c);
      ASSERT_TRUE(got.status.ok()) << kernels_.cuda[i].name << got.status.error().str();
      expect_within_bound(c, truth, kernels_.cuda[i], got);
      if (HasFatalFailure()) return;
      for (std::size_t j = 0; j < want.y.size(); ++j) {
        const bool same = got.y[j] == want.y[j] || !linear::exact(c.problem.math, c.problem.matrices[j].granularity);
        ASSERT_TRUE(same) << kernels_.cuda[i].name << " matrix " << j << ' ' << describe(c);
      }
      const auto again = run_linear(kernels_.cuda[i].entry, c);
      for (std::size_t j = 0; j < want.y.size(); ++j)
        ASSERT_TRUE(again.y[j] == got.y[j]) << kernels_.cuda[i].name << " is not the same twice, " << describe(c);
    }
  }
  GpuAndCpu kernels_;
};

struct Mode {
  DType x;
  LinearMath math;
};
constexpr Mode kModes[] = {{DType::f16, LinearMath::w2_float},
                           {DType::bf16, LinearMath::w2_float},
                           {DType::f32, LinearMath::w2_float},
                           {DType::i8, LinearMath::w2a8}};

TEST_F(ManyFloats, WithinTheBound) {
  Random random(51);
  const Granularity granularities[] = {Granularity::group(128), Granularity::group(64),  Granularity::group(32),
                                       Granularity::group(96),  Granularity::group(100), Granularity::row(),
                                       Granularity::tensor()};
  const DType types[] = {DType::f32, DType::bf16, DType::f16};
  std::size_t turn = 0;
  for (const Mode& mode : kModes)
    for (const std::int64_t m : {65, 100, 129, 300})
      for (const std::int64_t n : {21, 64, 4096})
        for (const Granularity& granularity : granularities) {
          if (linear::exact(mode.math, granularity)) continue;
          ++turn;
          if (n == 4096 && turn % 3 != 0) continue;
          const std::int64_t long_k[] = {300, 640, 1000, 1337};
          const std::int64_t k = n == 4096 ? 130 + 6 * static_cast<std::int64_t>(turn % 5) : long_k[turn % 4];
          Linear::Problem p{.m_max = m, .k = k, .x_dtype = mode.x, .math = mode.math};
          p.matrices = {{.n = n,
                         .granularity = granularity,
                         .y_dtype = types[turn % 3],
                         .bias = turn % 2 == 0,
                         .residual = turn % 5 == 0}};
          LinearCase c = make_case(p, random);
          c.x_gap = turn % 4 == 1 ? 3 : 0;
          c.y_gap = turn % 4 == 2 ? 5 : 0;
          expect_good(c, n == 4096 ? 1 : 4);
          if (HasFatalFailure()) return;
        }
}

// Floats quantized to token_i8: the integers are the CPU's, so results are close to the CPU's.
TEST_F(ManyFloats, QuantizedOnTheWay) {
  Random random(52);
  for (const DType x : {DType::f32, DType::f16, DType::bf16})
    for (const std::int64_t m : {65, 129, 300})
      for (const Granularity& granularity : {Granularity::group(128), Granularity::group(48)}) {
        Linear::Problem p{.m_max = m, .k = 777, .x_dtype = x};
        p.matrices = {{.n = 200, .granularity = granularity}};
        const LinearCase c = make_case(p, random);
        const auto want = run_linear(kernels_.cpu.entry, c, 8);
        const Truth size = truth_of(c);
        for (const NamedKernel& kernel : kernels_.cuda) {
          const auto got = run_linear(kernel.entry, c);
          ASSERT_TRUE(got.status.ok()) << kernel.name << got.status.error().str();
          for (std::size_t i = 0; i < size.y[0].size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            ASSERT_NEAR(activation_quantize::read(got.y[0].data(), DType::f32, at),
                        activation_quantize::read(want.y[0].data(), DType::f32, at), 2.1e-5 * size.size[0][i] + 1e-30)
                << kernel.name << " element " << i << ' ' << describe(c);
          }
        }
      }
}

// With so many rows, Hopper has a separate kernel for one token, with the same bits as the kernel for several tokens.
// Two matrices, so that a block has rows of both.
TEST_F(ManyFloats, OneTokenOfWiderWeights) {
  Random random(54);
  std::size_t turn = 0;
  for (const Format format : {Format::s4, Format::s8}) {
    use_kernels_of(format);
    for (const std::int64_t k : {128, 300, 640, 1152, 9216})
      for (const std::int64_t group : {128, 64, 32, 256}) {
        if (k == 9216 && (format == Format::s8 || group == 64)) continue;  // the others take long enough
        ++turn;
        Linear::Problem p{.m_max = 2, .k = k, .x_dtype = turn % 4 == 0 ? DType::bf16 : DType::i8, .format = format};
        p.matrices = {{.n = 4001, .granularity = Granularity::group(group), .bias = turn % 2 == 0},
                      {.n = 2600,
                       .granularity = Granularity::group(group),
                       .y_dtype = turn % 3 == 0 ? DType::bf16 : DType::f32,
                       .residual = turn % 2 == 1}};
        const LinearCase c = make_case(p, random);
        if (p.x_dtype == DType::i8) expect_good(tokens_of(c, 1, 1), 1);
        expect_same_for_every_thread_count_and_m(c, kernels_.cuda[0], run_linear(kernels_.cuda[0].entry, c), {});
        if (HasFatalFailure()) return;
      }
  }
}

// Matrices by tensor, by row and by groups of several sizes share x: each is computed by the kernel for it.
TEST_F(ManyFloats, MixedWithExactOnes) {
  Random random(53);
  for (const Mode& mode : kModes)
    for (const std::int64_t m : {1, 7, 65, 129, 300}) {
      Linear::Problem p{.m_max = m, .k = 700, .x_dtype = mode.x, .math = mode.math};
      p.matrices = {{.n = 72, .granularity = Granularity::tensor(), .y_dtype = DType::bf16, .bias = true},
                    {.n = 200, .granularity = Granularity::group(128), .residual = true},
                    {.n = 33, .granularity = Granularity::row(), .y_dtype = DType::f16},
                    {.n = 130, .granularity = Granularity::group(128), .y_dtype = DType::bf16},
                    {.n = 17, .granularity = Granularity::group(32), .bias = true},
                    {.n = 40, .granularity = Granularity::group(50)}};
      if (mode.math == LinearMath::w2a8) p.matrices.push_back({.n = 9, .y_dtype = DType::i32});
      LinearCase c = make_case(p, random);
      if (mode.math == LinearMath::w2a8) {  // truth_of() has no bare sums: compare them with the CPU's
        LinearCase bare = c;
        bare.problem.matrices = {p.matrices.back()};
        bare.weights = {c.weights.back()};
        bare.bias = {c.bias.back()};
        bare.residual = {c.residual.back()};
        const auto all = run_linear(kernels_.cuda[0].entry, c), want = run_linear(kernels_.cpu.entry, bare);
        ASSERT_TRUE(all.status.ok()) << all.status.error().str();
        ASSERT_EQ(all.y.back(), want.y[0]) << describe(c);
        c.problem.matrices.pop_back();
        c.weights.pop_back();
      }
      expect_good(c, 4);
      if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace tern::test
