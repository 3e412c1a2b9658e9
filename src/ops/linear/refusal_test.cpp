// Every problem and argument that linear refuses, and the words of its error.
#include <gtest/gtest.h>

#include "tests/support/linear_runner.h"

namespace tern {
namespace {

using test::LinearCase;
using test::make_case;
using test::Random;
using Problem = Linear::Problem;

class LinearBind : public testing::Test {
 protected:
  LinearBind() {
    problem.matrices = {{.n = 6, .granularity = Granularity::row()}};
    problem.k = 40;
    problem.m_max = 3;
    Random random(14);
    made = make_case(problem, random);
    output = {.weights = made.weights[0], .y = {y, DType::f32, {3, 6}}};
    x = {made.x_bytes.data(), DType::i8, {3, 40}};
    x_scales = {made.x_scales.data(), DType::f32, {3}};
  }
  // Binds the arguments; returns the error's text, or an empty string.
  std::string bound() {
    const auto params = OpTraits<Linear>::bind(problem, {.x = x, .x_scales = x_scales, .outputs = {&output, outputs}});
    return params.ok() ? "" : params.error().str();
  }
  Problem problem;
  LinearCase made;
  float y[18] = {};
  float bias[6] = {};
  Linear::Output output;
  std::size_t outputs = 1;
  ConstTensorView x, x_scales;
};

TEST_F(LinearBind, ArgumentsThatDoNotFit) {
  EXPECT_EQ(bound(), "");
  const auto has = [&](std::string_view part) {
    const std::string text = bound();
    EXPECT_NE(text.find(part), std::string::npos) << '"' << text << "\" lacks \"" << part << '"';
  };
  x = {made.x_bytes.data(), DType::i8, {3, 39}};
  has("x is [3, 39], the problem needs [m, 40]");
  x = {made.x_bytes.data(), DType::i8, {4, 40}};
  has("x has 4 tokens, the plan was made for up to 3");
  x = {made.x_bytes.data(), DType::f32, {3, 40}};
  has("x is f32, the problem says i8");
  x = {y, DType::i8, {1, 40}};
  output.y = {y, DType::f32, {1, 6}};
  x_scales = {made.x_scales.data(), DType::f32, {1}};
  has("x and y overlap");
  x = {made.x_bytes.data(), DType::i8, {3, 40}};
  output.y = {y, DType::f32, {3, 6}};
  has("x_scales");
  x_scales = {};
  has("x_scales");
  const float zero[3] = {1, 0, 1};
  x_scales = {zero, DType::f32, {3}};
  has("x_scales[1] is 0");
  x_scales = {made.x_scales.data(), DType::f32, {3}};
  output.y = {y, DType::f32, {2, 6}};
  has("y is [2, 6]");
  output.y = {nullptr, DType::f32, {3, 6}};
  has("y is null");
  output.y = {y, DType::f16, {3, 6}};
  has("y is f16, the problem says f32");
  output.y = {y, DType::f32, {3, 6}};
  outputs = 0;
  has("0 outputs for 1 matrices");
  outputs = 1;
  output.weights = {};
  has("weights are empty");
  output.weights =
      test::pack_for_test(std::vector<std::uint8_t>(60), std::vector<float>(6, 1.0F), 6, 37, Granularity::row());
  has("weights are 6 x 37, the problem says 6 x 40");
  output.weights = test::pack_for_test(std::vector<std::uint8_t>(60), {1.0F}, 6, 40, Granularity::tensor());
  has("weights have scales by tensor, the problem says row");
  output.weights = made.weights[0];
  problem.matrices[0].bias = true;
  output.bias = {bias, DType::f32, {5}};
  has("bias is [5]");
  output.bias = {y, DType::f32, {6}};
  has("bias and y overlap");
  output.bias = {bias, DType::f32, {6}};
  problem.matrices[0].residual = true;
  output.residual = {y + 1, DType::f32, {2, 6}};
  has("residual is [2, 6]");
  output.y = {y, DType::f32, {3, 5}, {6, 1}, {}};
  has("y is [3, 5]");
}

TEST(LinearRefuses, ProblemsThatCannotBe) {
  Problem good{.m_max = 1, .k = 8};
  good.matrices = {{.n = 4}};
  ASSERT_TRUE(OpTraits<Linear>::facts(good).ok());
  const auto says = [](const Problem& p) {
    const auto facts = OpTraits<Linear>::facts(p);
    return facts.ok() ? facts->refused : facts.error().message;
  };
  const auto with = [&](auto change) {
    Problem p = good;
    change(p);
    return says(p);
  };
  EXPECT_EQ(with([](Problem& p) { p.format = Format::s2; }), "linear takes weights in i2, b3, s8 and s4, not in s2");
  EXPECT_EQ(with([](Problem& p) { p.k = -1; }), "k is -1; it must not be negative");
  EXPECT_EQ(with([](Problem& p) { p.m_max = (std::int64_t{1} << 30) + 1; }),
            "m_max is 1073741825, above 1073741824; give the tokens to several runs");
  EXPECT_EQ(with([](Problem& p) {
              p.matrices = {{.n = 1 << 29}, {.n = 1 << 29}, {.n = 1}};
            }),
            "the matrices have 1073741825 rows, above 1073741824; split them");
  EXPECT_EQ(with([](Problem& p) { p.k = 1 << 24; }), "k is 16777216, above 16777215: an int32 sum might not fit");
  EXPECT_EQ(with([](Problem& p) {
              p.format = Format::s8;
              p.k = 1 << 17;
            }),
            "131072 s8 weights share a scale, above 131071: an int32 sum might not fit; take shorter groups");
  EXPECT_EQ(with([](Problem& p) {
              p.format = Format::s8;
              p.k = 1 << 17;
              p.matrices[0].granularity = Granularity::group(1 << 16);
            }),
            "");
  EXPECT_EQ(with([](Problem& p) {
              p.format = Format::s4;
              p.x_dtype = DType::f32;
              p.math = LinearMath::w2_float;
            }),
            "s4 weights meet int8 activations; w2_float is for i2 and b3");
  EXPECT_EQ(with([](Problem& p) { p.matrices.clear(); }), "0 matrices; a problem has 1 to 8");
  EXPECT_EQ(with([](Problem& p) { p.matrices.resize(9); }), "9 matrices; a problem has 1 to 8");
  EXPECT_EQ(with([](Problem& p) { p.matrices[0].y_dtype = DType::i8; }), "y cannot be i8; it is f32, f16, bf16 or i32");
  EXPECT_EQ(with([](Problem& p) { p.math = LinearMath::w2_float; }),
            "x is i8, which w2_float does not take; it is for f32, f16 and bf16");
  EXPECT_EQ(with([](Problem& p) {
              p.matrices[0].y_dtype = DType::i32;
              p.matrices[0].bias = true;
            }),
            "i32 is the bare sum; it goes with no epilogue, and bias was asked for");
  EXPECT_EQ(with([](Problem& p) {
              p.matrices[0].y_dtype = DType::i32;
              p.matrices[0].granularity = Granularity::group(4);
            }),
            "i32 is the bare sum of w2a8 without group scales; ask for f32");
  EXPECT_EQ(with([](Problem& p) { p.matrices[0].granularity = Granularity::group(0); }),
            "group size is 0; it must be at least 1");
}

}  // namespace
}  // namespace tern
