// Compares the listed reference of linear, which reads tiles, with the truth, which starts from canonical codes.
#include <gtest/gtest.h>

#include "tests/support/linear_checks.h"

namespace tern::test {
namespace {

class LinearReference : public ::testing::TestWithParam<Format> {
 protected:
  static NamedKernel reference() {
    return {"linear." + std::string(name(GetParam())) + ".reference", reference_kernel("linear", GetParam())};
  }
  // Expects the truth's bits from w2a8, with group scales as well, and its bound from w2_float.
  static void expect_the_truth(const LinearCase& c) {
    const NamedKernel kernel = reference();
    const auto got = run_linear(kernel.entry, c);
    ASSERT_TRUE(got.status.ok()) << got.status.error().str();
    if (c.problem.math == LinearMath::w2a8) {
      ASSERT_EQ(got.y, true_bits(c)) << describe(c);
    } else {
      expect_within_bound(c, truth_of(c), kernel, got);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Formats, LinearReference, ::testing::Values(Format::i2, Format::b3, Format::s8, Format::s4),
                         [](const auto& format) { return std::string(name(format.param)); });

TEST_P(LinearReference, IsTheTruthForEveryShapeAndGranularity) {
  Random random(51);
  const Granularity granularities[] = {Granularity::tensor(),  Granularity::row(),      Granularity::group(1),
                                       Granularity::group(7),  Granularity::group(31),  Granularity::group(32),
                                       Granularity::group(64), Granularity::group(128), Granularity::group(200)};
  std::size_t turn = 0;
  for (const std::int64_t n : kSmallDims)
    for (const std::int64_t k : {1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300, 513})
      for (const Granularity& granularity : granularities) {
        Linear::Problem p{.m_max = 1 + static_cast<std::int64_t>(turn % 3), .k = k, .format = GetParam()};
        p.x_dtype = turn % 4 == 0 ? DType::bf16 : DType::i8;
        p.matrices = {{.n = n, .granularity = granularity}};
        expect_the_truth(make_case(p, random));
        if (granularity.kind != Granularity::Kind::group) {
          p.matrices[0].y_dtype = DType::i32;
          expect_the_truth(make_case(p, random));
        }
        if (is_trits(GetParam()) && turn % 3 == 0) {
          p.x_dtype = DType::f16;
          p.math = LinearMath::w2_float;
          p.matrices[0].y_dtype = DType::f32;
          expect_the_truth(make_case(p, random));
        }
        if (HasFatalFailure()) return;
        ++turn;
      }
}

TEST_P(LinearReference, IsTheTruthForEveryEpilogue) {
  Random random(52);
  for (const Linear::Matrix& epilogue : all_epilogues())
    for (const DType x : {DType::i8, DType::f32})
      for (const Granularity& granularity : {Granularity::tensor(), Granularity::row(), Granularity::group(48)}) {
        if (epilogue.y_dtype == DType::i32 && granularity.kind == Granularity::Kind::group) continue;
        Linear::Problem p{.m_max = 3, .k = 130, .x_dtype = x, .format = GetParam()};
        p.matrices = {epilogue};
        p.matrices[0].n = 37;
        p.matrices[0].granularity = granularity;
        expect_the_truth(make_case(p, random));
        if (HasFatalFailure()) return;
      }
}

// The truth does not depend on the library's tiles: packed weights with two columns swapped give other results.
TEST_P(LinearReference, IsNotTheTruthOfSwappedColumns) {
  Random random(53);
  Linear::Problem p{.m_max = 1, .k = 70, .format = GetParam()};
  p.matrices = {{.n = 5, .y_dtype = DType::i32}};
  LinearCase c = make_case(p, random);
  c.x_bytes[3] = 100;
  c.x_bytes[4] = -100;
  std::vector<std::int8_t> row(70, 0);
  row[3] = 1;
  pack_row(GetParam(), row.data(), p.k, c.codes[0].data());
  LinearCase swapped = c;
  std::swap(row[3], row[4]);
  pack_row(GetParam(), row.data(), p.k, swapped.codes[0].data());
  c.weights[0] = pack_for_test(swapped.codes[0], c.scales[0], 5, p.k, {}, GetParam());
  EXPECT_NE(run_linear(reference().entry, c).y, true_bits(c));
  EXPECT_EQ(run_linear(reference().entry, c).y, true_bits(swapped));
}

}  // namespace
}  // namespace tern::test
