// linear with every small size and every epilogue, and every pair of large sizes: too slow for the usual tests.
#include <gtest/gtest.h>

#include <set>

#include "tests/support/linear_checks.h"

namespace tern {
namespace {

using test::LinearCase;
using test::make_case;
using test::NamedKernel;
using test::Random;
using test::run_linear;
using test::W;
using test::X;
using LinearProblem = Linear::Problem;

// --- small sizes: all of them with all epilogues. One test for each m, so that ctest runs them in parallel.

class LinearCross : public testing::TestWithParam<std::int64_t> {};

TEST_P(LinearCross, EveryEpilogue) {
  const std::int64_t m = GetParam();
  Random random(static_cast<std::uint64_t>(m));
  const auto kernels = test::runnable_kernels("linear", Format::i2);
  const auto epilogues = test::all_epilogues();
  constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};
  std::size_t turn = 0;
  for (const std::int64_t n : test::kSmallDims)
    for (const std::int64_t k : test::kSmallDims)
      for (const Granularity& g : {Granularity::tensor(), Granularity::row()}) {
        LinearProblem p{.m_max = m, .k = k};
        p.matrices = {{.n = n, .granularity = g}};
        LinearCase c = make_case(p, random);
        for (const Linear::Matrix& epilogue : epilogues) {
          c.problem.matrices = {epilogue};
          c.problem.matrices[0].n = n;
          c.problem.matrices[0].granularity = g;
          c.problem.x_dtype = DType::i8;
          test::expect_same(c, kernels);
          if (++turn % 4 == 0) {  // float types in turn; another op's tests cover their quantization
            c.problem.x_dtype = kTypes[turn / 4 % 3];
            test::expect_same(c, kernels);
          }
          if (HasFatalFailure()) return;
        }
      }
}
INSTANTIATE_TEST_SUITE_P(M, LinearCross, testing::ValuesIn(test::kSmallDims), testing::PrintToStringParamName());

// --- large sizes: every pair

struct Shape {
  std::int64_t m, n, k;
  auto operator<=>(const Shape&) const = default;
  [[nodiscard]] std::int64_t work() const { return m * n * k; }
};

constexpr std::int64_t kM[] = {1, 3, 4, 32, 129};
constexpr std::int64_t kN[] = {1, 65, 2560, 6912, 10007};
constexpr std::int64_t kK[] = {64, 2560, 6912, 10007, 131'072};
constexpr std::int64_t kWork = 50'000'000;  // products, a tenth of a second for the reference

// Two sizes are fixed in `make`; picks the last size that keeps the work below kWork, or the first one.
template <class Make>
Shape completed(std::span<const std::int64_t> sizes, Make make) {
  Shape shape = make(sizes[0]);
  for (const std::int64_t size : sizes)
    if (make(size).work() <= kWork) shape = make(size);
  return shape;
}

std::vector<Shape> pairwise_shapes() {
  std::set<Shape> shapes;
  for (const std::int64_t m : kM)
    for (const std::int64_t n : kN) shapes.insert(completed(kK, [&](std::int64_t k) { return Shape{m, n, k}; }));
  for (const std::int64_t m : kM)
    for (const std::int64_t k : kK) shapes.insert(completed(kN, [&](std::int64_t n) { return Shape{m, n, k}; }));
  for (const std::int64_t n : kN)
    for (const std::int64_t k : kK) shapes.insert(completed(kM, [&](std::int64_t m) { return Shape{m, n, k}; }));
  return {shapes.begin(), shapes.end()};
}

// Compares the raw sums and their epilogue, with the same weights.
void expect_same_at(const Shape& s, std::size_t turn) {
  constexpr X kExtremes[] = {X::top, X::bottom, X::large, X::alternating};
  constexpr W kWeights[] = {W::random, W::plus, W::minus};
  Random random(turn);
  const auto kernels = test::runnable_kernels("linear", Format::i2);
  LinearProblem p{.m_max = s.m, .k = s.k};
  p.matrices = {{.n = s.n, .granularity = turn % 2 == 0 ? Granularity::tensor() : Granularity::row()}};
  LinearCase c = make_case(p, random, X::random, kWeights[turn % 3]);
  const int threads = 1 + static_cast<int>(turn % 9);
  for (const X x : {X::random, kExtremes[turn % 4]}) {
    test::fill_activations(c, random, x);
    for (const DType y : {DType::i32, DType::f32}) {
      c.problem.matrices[0].y_dtype = y;
      test::expect_same(c, kernels, threads);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(LinearPairs, OfLargeSizes) {
  const auto shapes = pairwise_shapes();
  for (std::size_t turn = 0; turn < shapes.size() && !HasFatalFailure(); ++turn) expect_same_at(shapes[turn], turn);
}

// --- long rows in the float modes: within the bound, and the same bits for every number of threads and tokens

struct FloatMode {
  LinearMath math;
  DType x_dtype;
};
class LinearLongFloat : public testing::TestWithParam<FloatMode> {};

TEST_P(LinearLongFloat, WithinTheBoundAndTheSame) {
  const auto [math, x_dtype] = GetParam();
  Random random(static_cast<std::uint64_t>(x_dtype));
  for (const std::int64_t k : {2560, 10007, 131'072})
    for (const X x : {X::random, X::top, X::large, X::alternating})
      for (const Granularity& g : {Granularity::group(128), Granularity::row(), Granularity::tensor()}) {
        if (linear::exact(math, g)) continue;
        LinearProblem p{.m_max = 9, .k = k, .x_dtype = x_dtype, .math = math};
        p.matrices = {{.n = k < 100'000 ? 70 : 9, .granularity = g, .bias = true},
                      {.n = 2, .granularity = g, .y_dtype = DType::f16, .residual = true},
                      {.n = 1, .granularity = g, .y_dtype = DType::bf16}};
        const LinearCase c = make_case(p, random, x, x == X::random ? W::random : W::plus);
        const test::Truth truth = test::truth_of(c);
        for (const NamedKernel& kernel : test::runnable_kernels("linear", Format::i2)) {
          const auto got = run_linear(kernel.entry, c);
          ASSERT_TRUE(got.status.ok()) << got.status.error().str();
          test::expect_within_bound(c, truth, kernel, got);
          test::expect_same_for_every_thread_count_and_m(c, kernel, got, {2, 3, 4, 5, 6, 7, 8, 9});
          if (HasFatalFailure()) return;
        }
      }
}
INSTANTIATE_TEST_SUITE_P(
    Modes, LinearLongFloat,
    testing::Values(FloatMode{LinearMath::w2a8, DType::i8}, FloatMode{LinearMath::w2_float, DType::f32},
                    FloatMode{LinearMath::w2_float, DType::f16}, FloatMode{LinearMath::w2_float, DType::bf16}),
    [](const auto& mode) { return std::string(name(mode.param.math)) + '_' + std::string(name(mode.param.x_dtype)); });

}  // namespace
}  // namespace tern
