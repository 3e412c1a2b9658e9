// Tests of the C ABI's affine ops: the bits of C++, and refusals by name.
#include "api/c_abi.h"
#include "api/c_test.h"
#include "tern/affine.h"

namespace tern::c_test {
namespace {

constexpr std::int64_t kAffineRows = 3, kAffineK = 70, kAffineScales = 3 * 3;

class CAffine : public testing::Test {
 protected:
  CAffine() { EXPECT_EQ(tern_context_stream(context_.get(), &stream_), TERN_OK); }

  ContextHandle context_ = open_context();
  const tern_stream* stream_ = nullptr;
  std::vector<float> x_ = make_weights(kAffineRows * kAffineK);
  std::vector<float> scales_ = std::vector<float>(kAffineScales, 0.0131F);
  std::vector<std::int32_t> zero_points_ = std::vector<std::int32_t>(kAffineScales, 7);
};
using AffineQuantizeHandle = std::unique_ptr<tern_affine_quantize_plan, Destroy<tern_affine_quantize_plan_destroy>>;

TEST_F(CAffine, Words) {
  tern_affine_granularity granularity = {TERN_AFFINE_TENSOR, 0, 0};
  EXPECT_EQ(tern_affine_granularity_parse("group:32:1", &granularity), TERN_OK);
  EXPECT_EQ(granularity.kind, TERN_AFFINE_GROUP);
  EXPECT_EQ(granularity.axis, 1);
  EXPECT_EQ(granularity.group_size, 32);
  EXPECT_FAILS(tern_affine_granularity_parse("row", &granularity), TERN_INVALID_ARGUMENT, "'row' is not one of");
  EXPECT_FAILS(tern_affine_granularity_parse(nullptr, &granularity), TERN_INVALID_ARGUMENT, "text is NULL");
  tern_affine_math math = TERN_AFFINE_MATH_DIVISION;
  EXPECT_EQ(tern_affine_math_parse("torch_cuda", &math), TERN_OK);
  EXPECT_EQ(math, TERN_AFFINE_MATH_TORCH_CUDA);
  EXPECT_FAILS(tern_affine_math_parse("fast", &math), TERN_INVALID_ARGUMENT, "'fast'");
  const std::int64_t shape[] = {kAffineRows, kAffineK};
  std::int64_t count = 0;
  EXPECT_EQ(tern_affine_scale_count(2, shape, {TERN_AFFINE_GROUP, -1, 32}, &count), TERN_OK);
  EXPECT_EQ(count, kAffineScales);
  EXPECT_FAILS(tern_affine_scale_count(2, shape, {TERN_AFFINE_CHANNEL, 2, 0}, &count), TERN_INVALID_ARGUMENT, "axis 2");
  EXPECT_FAILS(tern_affine_scale_count(2, nullptr, granularity, &count), TERN_INVALID_ARGUMENT, "shape is NULL");
}

TEST_F(CAffine, QuantizesWithTheBitsOfCpp) {
  tern_affine_quantize_problem problem = TERN_AFFINE_QUANTIZE_PROBLEM_INIT;
  problem.rank = 2;
  problem.shape[0] = kAffineRows;
  problem.shape[1] = kAffineK;
  problem.granularity = {TERN_AFFINE_GROUP, -1, 32};
  problem.format = TERN_FORMAT_U4;
  problem.zero_points = 1;
  problem.math = TERN_AFFINE_MATH_RECIPROCAL;
  std::vector<std::uint8_t> codes(kAffineRows * kAffineK / 2, 0xEE), expected(kAffineRows * kAffineK / 2, 0xDD);
  tern_affine_quantize_args args = TERN_AFFINE_QUANTIZE_ARGS_INIT;
  args.x = view_of(x_.data(), TERN_DTYPE_F32, {kAffineRows, kAffineK});
  args.scales = view_of(scales_.data(), TERN_DTYPE_F32, {kAffineScales});
  args.zero_points = view_of(zero_points_.data(), TERN_DTYPE_I32, {kAffineScales});
  args.codes = view_of(codes.data(), TERN_DTYPE_U8, {kAffineRows, kAffineK / 2});
  tern_affine_quantize_plan* made = nullptr;
  ASSERT_EQ(tern_affine_quantize_select(context_.get(), &problem, nullptr, &made), TERN_OK) << tern_last_error()->text;
  const AffineQuantizeHandle plan(made);
  const tern_plan_info* info = nullptr;
  ASSERT_EQ(tern_affine_quantize_plan_get_info(made, &info), TERN_OK);
  EXPECT_STREQ(info->layout, "u4");
  EXPECT_STREQ(info->accumulator, "none");
  ASSERT_EQ(tern_affine_quantize_plan_run(made, stream_, nullptr, 0, &args), TERN_OK) << tern_last_error()->text;

  const auto context = Context::open();
  const auto cpp = AffineQuantizePlan::select(*context, {.shape = {kAffineRows, kAffineK},
                                                         .granularity = AffineGranularity::group(32),
                                                         .format = Format::u4,
                                                         .zero_points = true,
                                                         .math = AffineMath::reciprocal});
  ASSERT_TRUE(cpp.ok());
  ASSERT_TRUE(cpp->run(context->stream(), {},
                       {.x = {x_.data(), DType::f32, {kAffineRows, kAffineK}},
                        .scales = {scales_.data(), DType::f32, {kAffineScales}},
                        .zero_points = {zero_points_.data(), DType::i32, {kAffineScales}},
                        .codes = {expected.data(), DType::u8, {kAffineRows, kAffineK / 2}}})
                  .ok());
  EXPECT_EQ(codes, expected);

  zero_points_[4] = 16;
  EXPECT_FAILS(tern_affine_quantize_plan_run(made, stream_, nullptr, 0, &args), TERN_INVALID_ARGUMENT,
               "zero_points[4] is 16");
  problem.math = static_cast<tern_affine_math>(3);
  EXPECT_FAILS(tern_affine_quantize_select(context_.get(), &problem, nullptr, &made), TERN_INVALID_ARGUMENT,
               "problem->math is 3");
  problem.math = TERN_AFFINE_MATH_DIVISION;
  problem.granularity.kind = static_cast<tern_affine_granularity_kind>(-1);
  EXPECT_FAILS(tern_affine_quantize_select(context_.get(), &problem, nullptr, &made), TERN_INVALID_ARGUMENT,
               "problem->granularity.kind is -1");
  EXPECT_FAILS(tern_affine_quantize_select(context_.get(), nullptr, nullptr, &made), TERN_INVALID_ARGUMENT,
               "problem is NULL");
}

// A struct of zeros means all codes, also in programs that were built before q_given existed.
TEST_F(CAffine, ZeroAndZeroAreBoundsOnlyWhereTheyAreGiven) {
  tern_affine_quantize_problem problem = TERN_AFFINE_QUANTIZE_PROBLEM_INIT;
  problem.rank = 1;
  problem.shape[0] = 4;
  static_assert(sizeof(problem) > c::Grows<tern_affine_quantize_problem>::first_bytes + 4, "q_given is no padding");
  const float x[] = {-300, -2, 3, 300}, scale = 1;
  const auto quantized = [&] {
    std::vector<std::int8_t> codes(4, 99);
    tern_affine_quantize_args args = TERN_AFFINE_QUANTIZE_ARGS_INIT;
    args.x = view_of(x, TERN_DTYPE_F32, {4});
    args.scales = view_of(&scale, TERN_DTYPE_F32, {1});
    args.codes = view_of(codes.data(), TERN_DTYPE_I8, {4});
    tern_affine_quantize_plan* plan = nullptr;
    EXPECT_EQ(tern_affine_quantize_select(context_.get(), &problem, nullptr, &plan), TERN_OK)
        << tern_last_error()->text;
    EXPECT_EQ(tern_affine_quantize_plan_run(plan, stream_, nullptr, 0, &args), TERN_OK) << tern_last_error()->text;
    tern_affine_quantize_plan_destroy(plan);
    return codes;
  };
  EXPECT_EQ(quantized(), (std::vector<std::int8_t>{-128, -2, 3, 127}));
  problem.q_given = 1;
  EXPECT_EQ(quantized(), (std::vector<std::int8_t>{0, 0, 0, 0}));
  problem.struct_size =
      c::Grows<tern_affine_quantize_problem>::first_bytes + 4;  // the size before q_given existed, so it is not read
  EXPECT_EQ(quantized(), (std::vector<std::int8_t>{-128, -2, 3, 127}));
  problem.q_max = 2;
  EXPECT_EQ(quantized(), (std::vector<std::int8_t>{0, 0, 2, 2}));
}

TEST_F(CAffine, DequantizesWithTheBitsOfCpp) {
  tern_affine_dequantize_problem problem = TERN_AFFINE_DEQUANTIZE_PROBLEM_INIT;
  problem.rank = 2;
  problem.shape[0] = kAffineRows;
  problem.shape[1] = kAffineK;
  problem.granularity = {TERN_AFFINE_GROUP, -1, 32};
  problem.format = TERN_FORMAT_S4;
  problem.zero_points = 1;
  std::vector<std::uint8_t> codes(kAffineRows * kAffineK / 2);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(37 * i);
  std::vector<float> y(kAffineRows * kAffineK, -1), expected(kAffineRows * kAffineK, -2);
  tern_affine_dequantize_args args = TERN_AFFINE_DEQUANTIZE_ARGS_INIT;
  args.codes = view_of(codes.data(), TERN_DTYPE_U8, {kAffineRows, kAffineK / 2});
  args.scales = view_of(scales_.data(), TERN_DTYPE_F32, {kAffineScales});
  args.zero_points = view_of(zero_points_.data(), TERN_DTYPE_I32, {kAffineScales});
  args.y = view_of(y.data(), TERN_DTYPE_F32, {kAffineRows, kAffineK});
  tern_affine_dequantize_plan* made = nullptr;
  ASSERT_EQ(tern_affine_dequantize_select(context_.get(), &problem, nullptr, &made), TERN_OK)
      << tern_last_error()->text;
  const std::unique_ptr<tern_affine_dequantize_plan, Destroy<tern_affine_dequantize_plan_destroy>> plan(made);
  ASSERT_EQ(tern_affine_dequantize_plan_run(made, stream_, nullptr, 0, &args), TERN_OK) << tern_last_error()->text;

  const auto context = Context::open();
  const auto cpp = AffineDequantizePlan::select(*context, {.shape = {kAffineRows, kAffineK},
                                                           .granularity = AffineGranularity::group(32),
                                                           .format = Format::s4,
                                                           .zero_points = true});
  ASSERT_TRUE(cpp.ok());
  ASSERT_TRUE(cpp->run(context->stream(), {},
                       {.codes = {codes.data(), DType::u8, {kAffineRows, kAffineK / 2}},
                        .scales = {scales_.data(), DType::f32, {kAffineScales}},
                        .zero_points = {zero_points_.data(), DType::i32, {kAffineScales}},
                        .y = {expected.data(), DType::f32, {kAffineRows, kAffineK}}})
                  .ok());
  EXPECT_EQ(y, expected);
  scales_[3] = 0;
  EXPECT_FAILS(tern_affine_dequantize_plan_run(made, stream_, nullptr, 0, &args), TERN_INVALID_SCALE, "scales[3] is 0");
  args.y.data = nullptr;
  scales_[3] = 1;
  EXPECT_FAILS(tern_affine_dequantize_plan_run(made, stream_, nullptr, 0, &args), TERN_INVALID_ARGUMENT, "y is null");
}

}  // namespace
}  // namespace tern::c_test
