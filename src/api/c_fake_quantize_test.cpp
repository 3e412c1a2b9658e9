// Tests of the C ABI's fake_quantize and its backward: the bits of C++, and refusals by name.
#include "api/c_test.h"
#include "tern/fake_quantize.h"

namespace tern::c_test {
namespace {

constexpr std::int64_t kRows = 3, kK = 70, kScales = 3 * 3;

class CFakeQuantize : public testing::Test {
 protected:
  CFakeQuantize() { EXPECT_EQ(tern_context_stream(context_.get(), &stream_), TERN_OK); }
  template <class CProblem>
  static void fill(CProblem& problem) {
    problem.rank = 2;
    problem.shape[0] = kRows;
    problem.shape[1] = kK;
    problem.granularity = {TERN_AFFINE_GROUP, -1, 32};
    problem.format = TERN_FORMAT_U4;
    problem.zero_points = 1;
    problem.math = TERN_AFFINE_MATH_RECIPROCAL;
    problem.strict = 1;
  }

  ContextHandle context_ = open_context();
  const tern_stream* stream_ = nullptr;
  std::vector<float> x_ = make_weights(kRows * kK), scales_ = std::vector<float>(kScales, 0.0031F);
  std::vector<std::int32_t> zero_points_ = std::vector<std::int32_t>(kScales, 7);
};

TEST_F(CFakeQuantize, GivesTheBitsOfCpp) {
  tern_fake_quantize_problem problem = TERN_FAKE_QUANTIZE_PROBLEM_INIT;
  fill(problem);
  problem.mask = 1;
  std::vector<float> y(kRows * kK, -1), expected(kRows * kK, -2);
  std::vector<std::uint8_t> mask(kRows * kK, 0xEE), expected_mask(kRows * kK, 0xDD);
  tern_fake_quantize_args args = TERN_FAKE_QUANTIZE_ARGS_INIT;
  args.x = view_of(x_.data(), TERN_DTYPE_F32, {kRows, kK});
  args.scales = view_of(scales_.data(), TERN_DTYPE_F32, {kScales});
  args.zero_points = view_of(zero_points_.data(), TERN_DTYPE_I32, {kScales});
  args.y = view_of(y.data(), TERN_DTYPE_F32, {kRows, kK});
  args.mask = view_of(mask.data(), TERN_DTYPE_U8, {kRows, kK});
  tern_fake_quantize_plan* made = nullptr;
  ASSERT_EQ(tern_fake_quantize_select(context_.get(), &problem, nullptr, &made), TERN_OK) << tern_last_error()->text;
  const std::unique_ptr<tern_fake_quantize_plan, Destroy<tern_fake_quantize_plan_destroy>> plan(made);
  ASSERT_EQ(tern_fake_quantize_plan_run(made, stream_, nullptr, 0, &args), TERN_OK) << tern_last_error()->text;

  const auto context = Context::open();
  const auto cpp = FakeQuantizePlan::select(*context, {.shape = {kRows, kK},
                                                       .granularity = AffineGranularity::group(32),
                                                       .format = Format::u4,
                                                       .zero_points = true,
                                                       .math = AffineMath::reciprocal,
                                                       .mask = true,
                                                       .strict = true});
  ASSERT_TRUE(cpp.ok());
  ASSERT_TRUE(cpp->run(context->stream(), {},
                       {.x = {x_.data(), DType::f32, {kRows, kK}},
                        .scales = {scales_.data(), DType::f32, {kScales}},
                        .zero_points = {zero_points_.data(), DType::i32, {kScales}},
                        .y = {expected.data(), DType::f32, {kRows, kK}},
                        .mask = {expected_mask.data(), DType::u8, {kRows, kK}}})
                  .ok());
  EXPECT_EQ(y, expected);
  EXPECT_EQ(mask, expected_mask);

  args.mask.data = nullptr;
  EXPECT_FAILS(tern_fake_quantize_plan_run(made, stream_, nullptr, 0, &args), TERN_INVALID_ARGUMENT, "mask is null");
  problem.mask = 0;
  EXPECT_FAILS(tern_fake_quantize_select(context_.get(), &problem, nullptr, &made), TERN_INVALID_ARGUMENT,
               "strict is a word of the mask");
  problem.math = static_cast<tern_affine_math>(3);
  EXPECT_FAILS(tern_fake_quantize_select(context_.get(), &problem, nullptr, &made), TERN_INVALID_ARGUMENT,
               "problem->math is 3");
}

TEST_F(CFakeQuantize, GradientsHaveTheBitsOfCpp) {
  tern_fake_quantize_backward_problem problem = TERN_FAKE_QUANTIZE_BACKWARD_PROBLEM_INIT;
  fill(problem);
  problem.qparam_gradients = 1;
  problem.grad_factor = 0.25;
  std::vector<float> grad_y = make_weights(kRows * kK);
  std::vector<float> got[3] = {std::vector<float>(kRows * kK, -1), std::vector<float>(kScales, -1),
                               std::vector<float>(kScales, -1)};
  std::vector<float> expected[3] = {std::vector<float>(kRows * kK, -2), std::vector<float>(kScales, -2),
                                    std::vector<float>(kScales, -2)};
  tern_fake_quantize_backward_args args = TERN_FAKE_QUANTIZE_BACKWARD_ARGS_INIT;
  args.grad_y = view_of(grad_y.data(), TERN_DTYPE_F32, {kRows, kK});
  args.x = view_of(x_.data(), TERN_DTYPE_F32, {kRows, kK});
  args.scales = view_of(scales_.data(), TERN_DTYPE_F32, {kScales});
  args.zero_points = view_of(zero_points_.data(), TERN_DTYPE_I32, {kScales});
  args.grad_x = view_of(got[0].data(), TERN_DTYPE_F32, {kRows, kK});
  args.grad_scales = view_of(got[1].data(), TERN_DTYPE_F32, {kScales});
  args.grad_zero_points = view_of(got[2].data(), TERN_DTYPE_F32, {kScales});
  tern_fake_quantize_backward_plan* made = nullptr;
  ASSERT_EQ(tern_fake_quantize_backward_select(context_.get(), &problem, nullptr, &made), TERN_OK)
      << tern_last_error()->text;
  const std::unique_ptr<tern_fake_quantize_backward_plan, Destroy<tern_fake_quantize_backward_plan_destroy>> plan(made);
  ASSERT_EQ(tern_fake_quantize_backward_plan_run(made, stream_, nullptr, 0, &args), TERN_OK) << tern_last_error()->text;

  const auto context = Context::open();
  const auto cpp = FakeQuantizeBackwardPlan::select(*context, {.shape = {kRows, kK},
                                                               .granularity = AffineGranularity::group(32),
                                                               .format = Format::u4,
                                                               .zero_points = true,
                                                               .math = AffineMath::reciprocal,
                                                               .strict = true,
                                                               .qparam_gradients = true,
                                                               .grad_factor = 0.25});
  ASSERT_TRUE(cpp.ok());
  ASSERT_TRUE(cpp->run(context->stream(), {},
                       {.grad_y = {grad_y.data(), DType::f32, {kRows, kK}},
                        .x = {x_.data(), DType::f32, {kRows, kK}},
                        .scales = {scales_.data(), DType::f32, {kScales}},
                        .zero_points = {zero_points_.data(), DType::i32, {kScales}},
                        .mask = {},
                        .grad_x = {expected[0].data(), DType::f32, {kRows, kK}},
                        .grad_scales = {expected[1].data(), DType::f32, {kScales}},
                        .grad_zero_points = {expected[2].data(), DType::f32, {kScales}}})
                  .ok());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(got[i], expected[i]);
  problem.from_mask = 1;
  EXPECT_FAILS(tern_fake_quantize_backward_select(context_.get(), &problem, nullptr, &made), TERN_INVALID_ARGUMENT,
               "gradients of scales need x");
  EXPECT_FAILS(tern_fake_quantize_backward_select(context_.get(), nullptr, nullptr, &made), TERN_INVALID_ARGUMENT,
               "problem is NULL");
}

}  // namespace
}  // namespace tern::c_test
