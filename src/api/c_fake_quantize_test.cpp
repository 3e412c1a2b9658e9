// Tests of the C ABI's fake_quantize and its backward: the bits of C++, and refusals by name.
#include "api/c_test.h"
#include "tern/fake_quantize.h"

namespace tern::c_test {
namespace {

constexpr std::int64_t kFakeRows = 3, kFakeK = 70, kFakeScales = 3 * 3;

class CFakeQuantize : public testing::Test {
 protected:
  CFakeQuantize() { EXPECT_EQ(tern_context_stream(context_.get(), &stream_), TERN_OK); }
  template <class CProblem>
  static void fill(CProblem& problem) {
    problem.rank = 2;
    problem.shape[0] = kFakeRows;
    problem.shape[1] = kFakeK;
    problem.granularity = {TERN_AFFINE_GROUP, -1, 32};
    problem.format = TERN_FORMAT_U4;
    problem.zero_points = 1;
    problem.math = TERN_AFFINE_MATH_RECIPROCAL;
    problem.strict = 1;
  }

  ContextHandle context_ = open_context();
  const tern_stream* stream_ = nullptr;
  std::vector<float> x_ = make_weights(kFakeRows * kFakeK), scales_ = std::vector<float>(kFakeScales, 0.0031F);
  std::vector<std::int32_t> zero_points_ = std::vector<std::int32_t>(kFakeScales, 7);
};

TEST_F(CFakeQuantize, GivesTheBitsOfCpp) {
  tern_fake_quantize_problem problem = TERN_FAKE_QUANTIZE_PROBLEM_INIT;
  fill(problem);
  problem.mask = 1;
  std::vector<float> y(kFakeRows * kFakeK, -1), expected(kFakeRows * kFakeK, -2);
  std::vector<std::uint8_t> mask(kFakeRows * kFakeK, 0xEE), expected_mask(kFakeRows * kFakeK, 0xDD);
  tern_fake_quantize_args args = TERN_FAKE_QUANTIZE_ARGS_INIT;
  args.x = view_of(x_.data(), TERN_DTYPE_F32, {kFakeRows, kFakeK});
  args.scales = view_of(scales_.data(), TERN_DTYPE_F32, {kFakeScales});
  args.zero_points = view_of(zero_points_.data(), TERN_DTYPE_I32, {kFakeScales});
  args.y = view_of(y.data(), TERN_DTYPE_F32, {kFakeRows, kFakeK});
  args.mask = view_of(mask.data(), TERN_DTYPE_U8, {kFakeRows, kFakeK});
  tern_fake_quantize_plan* made = nullptr;
  ASSERT_EQ(tern_fake_quantize_select(context_.get(), &problem, nullptr, &made), TERN_OK) << tern_last_error()->text;
  const std::unique_ptr<tern_fake_quantize_plan, Destroy<tern_fake_quantize_plan_destroy>> plan(made);
  ASSERT_EQ(tern_fake_quantize_plan_run(made, stream_, nullptr, 0, &args), TERN_OK) << tern_last_error()->text;

  const auto context = Context::open();
  const auto cpp = FakeQuantizePlan::select(*context, {.shape = {kFakeRows, kFakeK},
                                                       .granularity = AffineGranularity::group(32),
                                                       .format = Format::u4,
                                                       .zero_points = true,
                                                       .math = AffineMath::reciprocal,
                                                       .mask = true,
                                                       .strict = true});
  ASSERT_TRUE(cpp.ok());
  ASSERT_TRUE(cpp->run(context->stream(), {},
                       {.x = {x_.data(), DType::f32, {kFakeRows, kFakeK}},
                        .scales = {scales_.data(), DType::f32, {kFakeScales}},
                        .zero_points = {zero_points_.data(), DType::i32, {kFakeScales}},
                        .y = {expected.data(), DType::f32, {kFakeRows, kFakeK}},
                        .mask = {expected_mask.data(), DType::u8, {kFakeRows, kFakeK}}})
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
  std::vector<float> grad_y = make_weights(kFakeRows * kFakeK);
  std::vector<float> got[3] = {std::vector<float>(kFakeRows * kFakeK, -1), std::vector<float>(kFakeScales, -1),
                               std::vector<float>(kFakeScales, -1)};
  std::vector<float> expected[3] = {std::vector<float>(kFakeRows * kFakeK, -2), std::vector<float>(kFakeScales, -2),
                                    std::vector<float>(kFakeScales, -2)};
  tern_fake_quantize_backward_args args = TERN_FAKE_QUANTIZE_BACKWARD_ARGS_INIT;
  args.grad_y = view_of(grad_y.data(), TERN_DTYPE_F32, {kFakeRows, kFakeK});
  args.x = view_of(x_.data(), TERN_DTYPE_F32, {kFakeRows, kFakeK});
  args.scales = view_of(scales_.data(), TERN_DTYPE_F32, {kFakeScales});
  args.zero_points = view_of(zero_points_.data(), TERN_DTYPE_I32, {kFakeScales});
  args.grad_x = view_of(got[0].data(), TERN_DTYPE_F32, {kFakeRows, kFakeK});
  args.grad_scales = view_of(got[1].data(), TERN_DTYPE_F32, {kFakeScales});
  args.grad_zero_points = view_of(got[2].data(), TERN_DTYPE_F32, {kFakeScales});
  tern_fake_quantize_backward_plan* made = nullptr;
  ASSERT_EQ(tern_fake_quantize_backward_select(context_.get(), &problem, nullptr, &made), TERN_OK)
      << tern_last_error()->text;
  const std::unique_ptr<tern_fake_quantize_backward_plan, Destroy<tern_fake_quantize_backward_plan_destroy>> plan(made);
  ASSERT_EQ(tern_fake_quantize_backward_plan_run(made, stream_, nullptr, 0, &args), TERN_OK) << tern_last_error()->text;

  const auto context = Context::open();
  const auto cpp = FakeQuantizeBackwardPlan::select(*context, {.shape = {kFakeRows, kFakeK},
                                                               .granularity = AffineGranularity::group(32),
                                                               .format = Format::u4,
                                                               .zero_points = true,
                                                               .math = AffineMath::reciprocal,
                                                               .strict = true,
                                                               .qparam_gradients = true,
                                                               .grad_factor = 0.25});
  ASSERT_TRUE(cpp.ok());
  ASSERT_TRUE(cpp->run(context->stream(), {},
                       {.grad_y = {grad_y.data(), DType::f32, {kFakeRows, kFakeK}},
                        .x = {x_.data(), DType::f32, {kFakeRows, kFakeK}},
                        .scales = {scales_.data(), DType::f32, {kFakeScales}},
                        .zero_points = {zero_points_.data(), DType::i32, {kFakeScales}},
                        .mask = {},
                        .grad_x = {expected[0].data(), DType::f32, {kFakeRows, kFakeK}},
                        .grad_scales = {expected[1].data(), DType::f32, {kFakeScales}},
                        .grad_zero_points = {expected[2].data(), DType::f32, {kFakeScales}}})
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
