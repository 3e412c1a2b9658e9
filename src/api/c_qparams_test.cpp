// Tests of the C ABI's choose_qparams and dynamic_quantize: the bits of C++, and refusals by name.
#include "api/c_test.h"
#include "tern/qparams.h"

namespace tern::c_test {
namespace {

constexpr std::int64_t kQparamsRows = 3, kQparamsK = 70, kQparamsScales = 3 * 3;

class CQparams : public testing::Test {
 protected:
  CQparams() { EXPECT_EQ(tern_context_stream(context_.get(), &stream_), TERN_OK); }

  ContextHandle context_ = open_context();
  const tern_stream* stream_ = nullptr;
  struct alignas(64) {
    std::byte data[1 << 16];
  } workspace_;
  std::vector<float> x_ = make_weights(kQparamsRows * kQparamsK);
  std::vector<float> scales_ = std::vector<float>(kQparamsScales, -1.0F), expected_scales_ = scales_;
  std::vector<std::int32_t> zero_points_ = std::vector<std::int32_t>(kQparamsScales, 999),
                            expected_zero_points_ = zero_points_;
};

TEST_F(CQparams, Words) {
  tern_qparams_method method = TERN_QPARAMS_MINMAX;
  EXPECT_EQ(tern_qparams_method_parse("percentile", &method), TERN_OK);
  EXPECT_EQ(method, TERN_QPARAMS_PERCENTILE);
  EXPECT_FAILS(tern_qparams_method_parse("median", &method), TERN_INVALID_ARGUMENT, "'median' is not one of");
  EXPECT_FAILS(tern_qparams_method_parse("mse", nullptr), TERN_INVALID_ARGUMENT, "out is NULL");
}

TEST_F(CQparams, ChoosesWithTheBitsOfCpp) {
  tern_choose_qparams_problem problem = TERN_CHOOSE_QPARAMS_PROBLEM_INIT;
  problem.rank = 2;
  problem.shape[0] = kQparamsRows;
  problem.shape[1] = kQparamsK;
  problem.granularity = {TERN_AFFINE_GROUP, -1, 32};
  problem.format = TERN_FORMAT_U4;
  problem.method = TERN_QPARAMS_MSE;
  problem.zero_points = 1;
  tern_choose_qparams_args args = TERN_CHOOSE_QPARAMS_ARGS_INIT;
  args.x = view_of(x_.data(), TERN_DTYPE_F32, {kQparamsRows, kQparamsK});
  args.scales = view_of(scales_.data(), TERN_DTYPE_F32, {kQparamsScales});
  args.zero_points = view_of(zero_points_.data(), TERN_DTYPE_I32, {kQparamsScales});
  tern_choose_qparams_plan* made = nullptr;
  ASSERT_EQ(tern_choose_qparams_select(context_.get(), &problem, nullptr, &made), TERN_OK) << tern_last_error()->text;
  const std::unique_ptr<tern_choose_qparams_plan, Destroy<tern_choose_qparams_plan_destroy>> plan(made);
  const tern_plan_info* info = nullptr;
  ASSERT_EQ(tern_choose_qparams_plan_get_info(made, &info), TERN_OK);
  EXPECT_STREQ(info->layout, "u4");
  EXPECT_STREQ(info->accumulator, "f64");
  ASSERT_EQ(tern_choose_qparams_plan_run(made, stream_, workspace_.data, sizeof workspace_.data, &args), TERN_OK)
      << tern_last_error()->text;

  const auto context = Context::open();
  const auto cpp = ChooseQparamsPlan::select(*context, {.shape = {kQparamsRows, kQparamsK},
                                                        .granularity = AffineGranularity::group(32),
                                                        .format = Format::u4,
                                                        .method = QparamsMethod::mse,
                                                        .zero_points = true});
  ASSERT_TRUE(cpp.ok());
  ASSERT_TRUE(cpp->run(context->stream(), workspace_.data,
                       {.x = {x_.data(), DType::f32, {kQparamsRows, kQparamsK}},
                        .scales = {expected_scales_.data(), DType::f32, {kQparamsScales}},
                        .zero_points = {expected_zero_points_.data(), DType::i32, {kQparamsScales}}})
                  .ok());
  EXPECT_EQ(scales_, expected_scales_);
  EXPECT_EQ(zero_points_, expected_zero_points_);
  EXPECT_GT(scales_[0], 0);

  problem.method = static_cast<tern_qparams_method>(4);
  EXPECT_FAILS(tern_choose_qparams_select(context_.get(), &problem, nullptr, &made), TERN_INVALID_ARGUMENT,
               "problem->method is 4");
  problem.method = TERN_QPARAMS_PERCENTILE;
  problem.percentile = 12;
  EXPECT_FAILS(tern_choose_qparams_select(context_.get(), &problem, nullptr, &made), TERN_INVALID_ARGUMENT,
               "percentile is 12");
}

TEST_F(CQparams, QuantizesWithTheBitsOfCpp) {
  tern_dynamic_quantize_problem problem = TERN_DYNAMIC_QUANTIZE_PROBLEM_INIT;
  problem.rank = 2;
  problem.shape[0] = kQparamsRows;
  problem.shape[1] = kQparamsK;
  problem.granularity = {TERN_AFFINE_GROUP, -1, 32};
  problem.format = TERN_FORMAT_U4;
  problem.method = TERN_QPARAMS_MINMAX;
  problem.zero_points = 1;
  problem.math = TERN_AFFINE_MATH_RECIPROCAL;
  std::vector<std::uint8_t> codes(kQparamsRows * kQparamsK / 2, 0xEE), expected(kQparamsRows * kQparamsK / 2, 0xDD);
  tern_dynamic_quantize_args args = TERN_DYNAMIC_QUANTIZE_ARGS_INIT;
  args.x = view_of(x_.data(), TERN_DTYPE_F32, {kQparamsRows, kQparamsK});
  args.codes = view_of(codes.data(), TERN_DTYPE_U8, {kQparamsRows, kQparamsK / 2});
  args.scales = view_of(scales_.data(), TERN_DTYPE_F32, {kQparamsScales});
  args.zero_points = view_of(zero_points_.data(), TERN_DTYPE_I32, {kQparamsScales});
  tern_dynamic_quantize_plan* made = nullptr;
  ASSERT_EQ(tern_dynamic_quantize_select(context_.get(), &problem, nullptr, &made), TERN_OK) << tern_last_error()->text;
  const std::unique_ptr<tern_dynamic_quantize_plan, Destroy<tern_dynamic_quantize_plan_destroy>> plan(made);
  ASSERT_EQ(tern_dynamic_quantize_plan_run(made, stream_, workspace_.data, sizeof workspace_.data, &args), TERN_OK)
      << tern_last_error()->text;

  const auto context = Context::open();
  const auto cpp = DynamicQuantizePlan::select(*context, {.shape = {kQparamsRows, kQparamsK},
                                                          .granularity = AffineGranularity::group(32),
                                                          .format = Format::u4,
                                                          .method = QparamsMethod::minmax,
                                                          .zero_points = true,
                                                          .math = AffineMath::reciprocal});
  ASSERT_TRUE(cpp.ok());
  ASSERT_TRUE(cpp->run(context->stream(), workspace_.data,
                       {.x = {x_.data(), DType::f32, {kQparamsRows, kQparamsK}},
                        .codes = {expected.data(), DType::u8, {kQparamsRows, kQparamsK / 2}},
                        .scales = {expected_scales_.data(), DType::f32, {kQparamsScales}},
                        .zero_points = {expected_zero_points_.data(), DType::i32, {kQparamsScales}}})
                  .ok());
  EXPECT_EQ(codes, expected);
  EXPECT_EQ(scales_, expected_scales_);
  EXPECT_EQ(zero_points_, expected_zero_points_);

  problem.zero_points = 0;
  EXPECT_FAILS(tern_dynamic_quantize_select(context_.get(), &problem, nullptr, &made), TERN_INVALID_ARGUMENT,
               "minmax has zero points");
  EXPECT_FAILS(tern_dynamic_quantize_select(context_.get(), nullptr, nullptr, &made), TERN_INVALID_ARGUMENT,
               "problem is NULL");
}

}  // namespace
}  // namespace tern::c_test
