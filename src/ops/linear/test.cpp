// Tests every linear kernel, and the generic loops at every width: the bits of the truth where the contract decides
// them, otherwise the stated bound of float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "base/errors.h"
#include "ops/dot/generic.h"
#include "tests/support/linear_checks.h"

namespace tern {
namespace {

using test::describe;
using test::expect_same;
using test::expect_within_bound;
using test::LinearCase;
using test::LinearResult;
using test::NamedKernel;
using test::Random;
using test::run_linear;
using test::Truth;
using test::truth_of;
using test::W;
using test::X;
using Problem = Linear::Problem;

// Runs every test with each format of the weights.
class LinearOf : public ::testing::TestWithParam<Format> {
 protected:
  // Under sanitizers the loops run at 16 bytes only, as the scalar kernel: compiling the wider ones takes minutes.
  static std::vector<NamedKernel> all_kernels() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    return test::kernels_and_loops<dot::Loops>("linear", GetParam(),
                                               [](const auto* table) { return linear::entry(table); });
#else
    return listed_kernels();
#endif
  }
  static std::vector<LinearMath> maths() {
    if (!is_trits(GetParam())) return {LinearMath::w2a8};
    return {LinearMath::w2a8, LinearMath::w2_float};
  }
  static std::vector<NamedKernel> listed_kernels() { return test::runnable_kernels("linear", GetParam()); }
  static LinearCase make_case(Problem p, Random& random, X x = X::random, W w = W::random) {
    p.format = GetParam();
    return test::make_case(p, random, x, w);
  }
};
constexpr auto kFormatName = [](const auto& param) { return std::string(name(param.param)); };
INSTANTIATE_TEST_SUITE_P(Formats, LinearOf, ::testing::Values(Format::i2, Format::b3, Format::s8, Format::s4),
                         kFormatName);

TEST_P(LinearOf, EveryDimension) {
  Random random(1);
  const auto kernels = all_kernels();
  const auto epilogues = test::all_epilogues();
  std::size_t turn = 0;
  for (const std::int64_t m : test::kSmallDims)
    for (const std::int64_t n : test::kSmallDims)
      for (const std::int64_t k : test::kSmallDims) {
        Problem p{.m_max = m, .k = k};
        p.matrices = {epilogues[turn++ % epilogues.size()]};
        p.matrices[0].n = n;
        p.matrices[0].granularity = turn % 2 == 0 ? Granularity::tensor() : Granularity::row();
        p.x_dtype = turn % 5 == 0 ? DType::f32 : DType::i8;
        expect_same(make_case(p, random), kernels);
        if (HasFatalFailure()) return;
      }
}

TEST_P(LinearOf, EveryEpilogue) {
  Random random(2);
  const auto kernels = all_kernels();
  // All formats share the epilogues, so i2 runs with every number of tokens and rows, the others with some.
  const bool every = GetParam() == Format::i2;
  for (const Linear::Matrix& epilogue : test::all_epilogues())
    for (const std::int64_t m : every ? std::vector<std::int64_t>{1, 2, 3, 4, 5, 7} : std::vector<std::int64_t>{2, 5})
      for (const std::int64_t n : every ? std::vector<std::int64_t>{1, 3, 17, 64, 70} : std::vector<std::int64_t>{70})
        for (const DType x : {DType::i8, DType::f32, DType::f16, DType::bf16}) {
          Problem p{.m_max = m, .k = 70, .x_dtype = x};
          p.matrices = {epilogue};
          p.matrices[0].n = n;
          p.matrices[0].granularity = Granularity::row();
          LinearCase c = make_case(p, random);
          c.x_gap = 3;
          c.y_gap = 5;
          expect_same(c, kernels);
          if (HasFatalFailure()) return;
        }
}

// For kernels that divide by a reciprocal and corrections: sums by scales of all sizes, and by those whose reciprocal
// rounds worst.
TEST_P(LinearOf, QuotientsRoundAsADivision) {
  Random random(31);
  const auto kernels = all_kernels();
  Problem p{.m_max = 512, .k = 300};
  p.matrices = {{.n = 112}};
  LinearCase c = make_case(p, random);
  for (std::size_t i = 0; i < c.x_scales.size(); ++i) {
    const std::int64_t digits = i % 4 == 0 ? 0x7fffff - static_cast<std::int64_t>(i) / 4 : 1 + random.below(0x7fffff);
    const std::int64_t exponent = i % 3 == 0 ? 127 : random.below(254);
    c.x_scales[i] = std::bit_cast<float>(static_cast<std::uint32_t>(exponent << 23 | digits));
  }
  expect_same(c, kernels);
}

// Inputs on which int16 sums that are too narrow would wrap around.
TEST_P(LinearOf, ExtremeActivationsAndWeights) {
  Random random(3);
  const auto kernels = all_kernels();
  for (const X x : {X::top, X::bottom, X::large, X::alternating, X::random})
    for (const W w : {W::plus, W::minus, W::random})
      for (const std::int64_t k : {64, 1024, 2048, 4096, 4160, 10007})
        for (const std::int64_t m : {1, 3, 4}) {
          Problem p{.m_max = m, .k = k};
          p.matrices = {{.n = 5, .y_dtype = DType::i32}};
          expect_same(make_case(p, random, x, w), kernels);
          if (HasFatalFailure()) return;
        }
}

TEST_P(LinearOf, LongRows) {
  Random random(4);
  const auto kernels = listed_kernels();
  const std::int64_t most = linear::max_summed(GetParam());
  for (const X x : {X::top, X::bottom})
    for (const std::int64_t m : {1, 5}) {
      Problem p{.m_max = m, .k = std::min<std::int64_t>(131'072, most)};
      p.matrices = {{.n = 3, .y_dtype = DType::i32}};
      expect_same(make_case(p, random, x, W::plus), kernels);
    }
  // The longest row that is allowed: its sum just fits.
  Problem p{.m_max = 1, .k = most, .format = GetParam()};
  p.matrices = {{.n = 1, .y_dtype = DType::i32}};
  expect_same(make_case(p, random, X::bottom, W::plus), kernels);
  p.matrices[0].granularity = Granularity::row();
  expect_same(make_case(p, random, X::bottom, W::minus), kernels);
  if (most == linear::kMaxK) return;
  p.k = most + 1;
  EXPECT_NE(OpTraits<Linear>::facts(p)->refused.find("an int32 sum might not fit"), std::string::npos);
  // Each group has its own sum, so a longer row is allowed.
  p.matrices[0] = {.n = 1, .granularity = Granularity::group(most), .bias = true};
  const LinearCase c = make_case(p, random, X::bottom, W::minus);
  for (const NamedKernel& kernel : kernels) expect_within_bound(c, truth_of(c), kernel, run_linear(kernel.entry, c));
}

TEST_P(LinearOf, RealShapesAndThreads) {
  Random random(5);
  const auto kernels = listed_kernels();
  const struct {
    std::int64_t m, n, k;
  } shapes[] = {{1, 2560, 2560}, {2, 640, 2560}, {9, 129, 6912},  {100, 67, 2560},
                {201, 70, 300},  {1, 10007, 65}, {13, 2560, 2560}};
  for (const auto& s : shapes) {
    Problem p{.m_max = s.m, .k = s.k};
    p.matrices = {{.n = s.n, .granularity = Granularity::row(), .bias = true}};
    const LinearCase c = make_case(p, random);
    const auto want = test::true_bits(c);
    for (const NamedKernel& kernel : kernels)
      for (int threads = 1; threads <= 9; threads += kernel.name.ends_with("avx2") ? 1 : 4)
        ASSERT_EQ(run_linear(kernel.entry, c, threads).y, want) << kernel.name << ' ' << threads << describe(c);
  }
}

TEST_P(LinearOf, SeveralMatricesWithOneInput) {
  Random random(6);
  for (const std::int64_t m : {1, 4, 130})
    for (const DType x : {DType::i8, DType::bf16}) {
      Problem p{.m_max = m, .k = 200, .x_dtype = x};
      p.matrices = {{.n = 130, .granularity = Granularity::tensor(), .activation = Activation::squared_relu},
                    {.n = 1, .granularity = Granularity::row(), .y_dtype = DType::f16, .bias = true},
                    {.n = 33, .granularity = Granularity::row(), .y_dtype = DType::i32},
                    {.n = 0},
                    {.n = 64, .granularity = Granularity::tensor(), .y_dtype = DType::bf16, .residual = true}};
      for (const int threads : {1, 2, 5}) expect_same(make_case(p, random), all_kernels(), threads);
    }
}

TEST_P(LinearOf, RandomProblems) {
  Random random(7);
  const auto epilogues = test::all_epilogues();
  const auto kernels = all_kernels();
  for (int i = 0; i < (is_trits(GetParam()) ? 400 : 150); ++i) {
    Problem p{.m_max = 1 + random.below(40), .k = random.below(700)};
    const DType types[] = {DType::i8, DType::f32, DType::f16, DType::bf16};
    p.x_dtype = types[random.below(4)];
    for (std::int64_t j = 1 + random.below(3); j > 0; --j) {
      Linear::Matrix matrix = epilogues[static_cast<std::size_t>(random.below(25))];
      matrix.n = random.below(150);
      matrix.granularity = random.below(2) == 0 ? Granularity::tensor() : Granularity::row();
      p.matrices.push_back(matrix);
    }
    LinearCase c = make_case(p, random);
    c.x_gap = random.below(5);
    c.y_gap = random.below(5);
    expect_same(c, kernels, 1 + static_cast<int>(random.below(4)));
    if (HasFatalFailure()) return;
  }
}

// One plan serves fewer tokens than it was made for.
TEST_P(LinearOf, FewerTokensThanTheMost) {
  Random random(8);
  Problem p{.m_max = 50, .k = 130};
  p.matrices = {{.n = 40}};
  for (const std::int64_t m : {0, 1, 2, 3, 4, 49}) {
    LinearCase c = make_case(p, random);
    c.m = m;
    c.x_scales.resize(static_cast<std::size_t>(m));
    expect_same(c, all_kernels());
  }
}

// No columns: the sum is 0 and the epilogue runs.
TEST_P(LinearOf, NoColumns) {
  Random random(15);
  for (const Granularity& g : {Granularity::tensor(), Granularity::row()})
    for (const std::int64_t m : {1, 5})
      for (const DType x : {DType::i8, DType::f32}) {
        Problem p{.m_max = m, .k = 0, .x_dtype = x};
        p.matrices = {{.n = 20, .granularity = g, .bias = true, .residual = true}, {.n = 3, .y_dtype = DType::i32}};
        expect_same(make_case(p, random), all_kernels());
      }
}

TEST_P(LinearOf, ResidualMayBeTheOutput) {
  Random random(9);
  Problem p{.m_max = 5, .k = 64};
  p.matrices = {{.n = 20, .residual = true}};
  const LinearCase c = make_case(p, random);
  const auto want = test::true_bits(c);
  for (const NamedKernel& kernel : all_kernels()) {
    std::vector<float> y = c.residual[0];
    Linear::Output output{.weights = c.weights[0], .y = {y.data(), DType::f32, {5, 20}}};
    output.residual = output.y;
    const auto params = OpTraits<Linear>::bind(c.problem, {.x = {c.x_bytes.data(), DType::i8, {5, 64}},
                                                           .x_scales = {c.x_scales.data(), DType::f32, {5}},
                                                           .outputs = {&output, 1}});
    ASSERT_TRUE(params.ok()) << params.error().str();
    ASSERT_TRUE(test::run_entry(kernel.entry, c.problem, *params, 1).ok());
    EXPECT_EQ(std::memcmp(y.data(), want[0].data(), want[0].size()), 0) << kernel.name;
  }
}

// --- group scales

TEST_P(LinearOf, GroupScalesAreTheTruthsBits) {
  Random random(16);
  std::vector<NamedKernel> kernels = all_kernels();
  std::erase_if(kernels, [](const NamedKernel& kernel) { return kernel.on_gpu; });  // they add up in another order
  std::size_t turn = 0;
  for (const std::int64_t m : {1, 2, 3, 4, 9, 33})
    for (const std::int64_t k : {1, 17, 64, 300, 1000})
      for (const std::int64_t group : {1, 3, 7, 32, 64, 100, 128, 999, 2000}) {
        if (group == 1 && k == 1000 && m > 4) continue;  // long, and k = 300 has several chains, too
        ++turn;
        const DType types[] = {DType::f32, DType::bf16, DType::f16};
        Problem p{.m_max = m, .k = k, .x_dtype = turn % 4 == 0 ? DType::f32 : DType::i8};
        p.matrices = {{.n = 21 + static_cast<std::int64_t>(turn % 3) * 16,
                       .granularity = Granularity::group(group),
                       .y_dtype = types[turn % 3],
                       .bias = turn % 2 == 0,
                       .activation = turn % 5 == 0 ? Activation::squared_relu : Activation::none,
                       .residual = turn % 7 == 0}};
        const W weights[] = {W::random, W::random, W::plus, W::minus};
        expect_same(make_case(p, random, turn % 3 == 0 ? X::top : X::random, weights[turn % 4]), kernels,
                    1 + static_cast<int>(turn % 3));
        if (HasFatalFailure()) return;
      }
}

// Scales of very different sizes, so that the order of the sums matters, and that each product and sum is rounded once.
TEST_P(LinearOf, GroupScalesAreAddedUpInChainsOfFusedProducts) {
  Problem p{.m_max = 1, .k = 300, .format = GetParam()};
  p.matrices = {{.n = 1, .granularity = Granularity::group(1)}};
  Random random(17);
  LinearCase c = make_case(p, random, X::top, W::plus);
  c.x_scales[0] = 1;
  const std::vector<std::int8_t> ones(300, 1);
  pack_row(GetParam(), ones.data(), 300, c.codes[0].data());
  std::vector<float>& scales = c.scales[0];
  for (std::size_t g = 0; g < scales.size(); ++g)
    scales[g] = (g % 2 == 0 ? 1.0F : 0x1p-24F) * (1.0F + static_cast<float>(random.below(1 << 20)) * 0x1p-20F);
  c.weights[0] = test::pack_for_test(c.codes[0], scales, 1, 300, Granularity::group(1), GetParam());
  float total = 0, plain = 0;
  for (std::size_t first = 0; first < 300; first += 128) {
    float chain = 0;
    for (std::size_t g = first; g < std::min<std::size_t>(300, first + 128); ++g)
      chain = std::fma(static_cast<float>(c.x_bytes[g]), scales[g], chain);
    total += chain;
  }
  for (std::size_t g = 0; g < 300; ++g) plain += static_cast<float>(c.x_bytes[g]) * scales[g];
  ASSERT_NE(total, plain);  // otherwise the scales would prove nothing
  const auto want = test::true_bits(c);
  EXPECT_EQ(activation_quantize::read(want[0].data(), DType::f32, 0), total);
  std::vector<NamedKernel> kernels = listed_kernels();
  std::erase_if(kernels, [](const NamedKernel& kernel) { return kernel.on_gpu; });
  expect_same(c, kernels);
}

// --- how weights are read

TEST_P(LinearOf, NoBitDependsOnStreamsAndPrefetching) {
  Random random(18);
  for (const Granularity& granularity : {Granularity::row(), Granularity::group(64)})
    for (const std::int64_t m : {1, 2}) {
      Problem p{.m_max = m, .k = 600};
      p.matrices = {{.n = 300, .granularity = granularity}, {.n = 37, .granularity = granularity}};
      const LinearCase c = make_case(p, random);
      for (const NamedKernel& kernel : listed_kernels()) {
        if (kernel.on_gpu) continue;
        const auto want = run_linear(kernel.entry, c);
        ASSERT_TRUE(want.status.ok());
        for (const int streams : {1, 2, 3, 4})
          for (const int ahead : {0, 64, 4096, 1 << 20}) {
            const Tuning tuning{.streams = streams, .ahead_bytes = ahead};
            for (const int threads : {1, 3})
              ASSERT_EQ(run_linear(kernel.entry, c, threads, &tuning).y, want.y)
                  << kernel.name << ' ' << name(tuning) << ' ' << threads << " threads";
          }
      }
    }
}

// --- float modes

TEST_P(LinearOf, FloatWithinTheBound) {
  Random random(10);
  const auto kernels = all_kernels();
  for (const LinearMath math : maths())
    for (const std::int64_t m : {1, 2, 3, 4, 8, 33})
      for (const std::int64_t k : {1, 17, 64, 300, 1000})
        for (const Granularity& g : {Granularity::group(1), Granularity::group(7), Granularity::group(64),
                                     Granularity::group(100), Granularity::row(), Granularity::tensor()}) {
          if (linear::exact(math, g)) continue;
          const DType x = math == LinearMath::w2a8 ? DType::i8
                          : k % 3 == 0             ? DType::f32
                          : k % 3 == 1             ? DType::f16
                                                   : DType::bf16;
          Problem p{.m_max = m, .k = k, .x_dtype = x, .math = math};
          p.matrices = {{.n = 21, .granularity = g, .y_dtype = m == 4 ? DType::bf16 : DType::f32, .bias = m == 2}};
          const LinearCase c = make_case(p, random);
          const Truth truth = truth_of(c);
          std::optional<decltype(LinearResult::y)> first;
          for (const NamedKernel& kernel : kernels) {
            const auto got = run_linear(kernel.entry, c);
            ASSERT_TRUE(got.status.ok()) << got.status.error().str();
            expect_within_bound(c, truth, kernel, got);
            if (HasFatalFailure()) return;
            if (kernel.on_gpu) continue;  // it adds up in another order
            if (!first) first = got.y;    // all widths add up in the same order
            ASSERT_EQ(got.y, *first) << kernel.name << ' ' << describe(c);
          }
        }
}

// Numbers of one sign that all round the same way: one long chain of additions would break the bound.
TEST_P(LinearOf, FloatLongRowsOfOneSign) {
  Random random(11);
  if (!is_trits(GetParam())) GTEST_SKIP() << "weights of more bits meet int8 alone";
  for (const std::int64_t m : {1, 4}) {
    Problem p{.m_max = m, .k = 131'072, .x_dtype = DType::f32, .math = LinearMath::w2_float};
    p.matrices = {{.n = 5, .granularity = Granularity::row()}, {.n = 3, .granularity = Granularity::group(48)}};
    LinearCase c = make_case(p, random, X::top, W::plus);
    for (float& v : c.x_floats) v = 1.0F + static_cast<float>(random.below(3)) * 0x1p-23F;
    const Truth truth = truth_of(c);
    for (const NamedKernel& kernel : listed_kernels()) {
      const auto got = run_linear(kernel.entry, c);
      ASSERT_TRUE(got.status.ok());
      expect_within_bound(c, truth, kernel, got);
    }
  }
}

TEST_P(LinearOf, FloatTheSameBitsForEveryThreadCountAndEveryM) {
  Random random(12);
  for (const LinearMath math : maths()) {
    Problem p{.m_max = 10, .k = 2500, .x_dtype = DType::f32, .math = math};
    p.matrices = {{.n = 150, .granularity = Granularity::group(96)}, {.n = 70, .granularity = Granularity::group(50)}};
    const LinearCase c = make_case(p, random);
    for (const NamedKernel& kernel : all_kernels()) {
      test::expect_same_for_every_thread_count_and_m(c, kernel, run_linear(kernel.entry, c), {2, 3, 7});
      if (HasFatalFailure()) return;
    }
  }
}

// Both matrices have two groups and the same number of lines, but not the same columns in a group, so they cannot share
// staged activations.
TEST_P(LinearOf, GroupsOfTwoSizesWithOneInput) {
  Random random(14);
  for (const LinearMath math : maths())
    for (const std::int64_t m : {1, 5}) {
      Problem p{.m_max = m, .k = 480, .x_dtype = math == LinearMath::w2a8 ? DType::i8 : DType::f32, .math = math};
      p.matrices = {{.n = 33, .granularity = Granularity::group(240)},
                    {.n = 18, .granularity = Granularity::group(320)}};
      const LinearCase c = make_case(p, random);
      for (const NamedKernel& kernel : all_kernels())
        expect_within_bound(c, truth_of(c), kernel, run_linear(kernel.entry, c));
    }
}

// --- what is refused

TEST_P(LinearOf, RefusesNonFiniteActivations) {
  Random random(13);
  for (const LinearMath math : maths())
    for (const DType x : {DType::f32, DType::f16, DType::bf16}) {
      Problem p{.m_max = 5, .k = 70, .x_dtype = x, .math = math};
      p.matrices = {{.n = 9, .granularity = Granularity::row()}};
      LinearCase c = make_case(p, random);
      c.x_floats[3 * 70 + 11] = std::numeric_limits<float>::infinity();
      c.x_floats[2 * 70 + 69] = std::numeric_limits<float>::quiet_NaN();
      for (const NamedKernel& kernel : all_kernels()) {
        const auto got = run_linear(kernel.entry, c);
        ASSERT_EQ(got.status.code(), Code::non_finite) << kernel.name;
        EXPECT_EQ(got.status.error().index, 2 * 70 + 69) << kernel.name;
      }
      EXPECT_EQ(run_linear(test::linear_reference(), c).status.error().index, 2 * 70 + 69);
      if (math != LinearMath::w2a8) continue;
      c.problem.non_finite = NonFinite::saturate;
      expect_same(c, all_kernels());
    }
}

// --- scales

TEST(PackedScalesOf, GpusHaveThemWithTheirTiles) {
  const std::int64_t n = 37, k = 300, groups = 5;
  std::vector<float> given(static_cast<std::size_t>(n * groups));
  for (std::size_t i = 0; i < given.size(); ++i) given[i] = static_cast<float>(i + 2);
  const CanonicalWeights w{.scales = given.data(), .n = n, .k = k, .granularity = Granularity::group(64)};
  const PackedScales packed = PackedScales::of(n, k, w.granularity);
  ASSERT_EQ(packed.count, 48 * groups);
  std::vector<float> scales(static_cast<std::size_t>(packed.count), -1.0F);
  packed.arrange(w, scales.data());
  auto at = scales.begin();
  for (std::int64_t tile = 0; tile < 3; ++tile)
    for (std::int64_t group = 0; group < groups; ++group)
      for (std::int64_t row = 16 * tile; row < 16 * (tile + 1); ++row)
        EXPECT_EQ(*at++, row < n ? static_cast<float>(row * groups + group + 2) : 1.0F) << row << ' ' << group;
}

}  // namespace
}  // namespace tern
