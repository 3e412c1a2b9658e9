// Tests of the C ABI's plans.
#include "api/c_test.h"
#include "tern/plan.h"
#include "tern/quantize.h"

namespace tern::c_test {
namespace {

constexpr std::int64_t kPlanRows = 3, kPlanColumns = 70, kPlanCodeBytes = 18;

class CPlan : public testing::Test {
 protected:
  CPlan() {
    problem_.rows = back_problem_.rows = kPlanRows;
    problem_.k = back_problem_.k = kPlanColumns;
    problem_.granularity = back_problem_.granularity = {TERN_GRANULARITY_ROW, 0};
    args_.x = view_of(weights_.data(), TERN_DTYPE_F32, {kPlanRows, kPlanColumns});
    args_.codes = back_args_.codes = view_of(codes_.data(), TERN_DTYPE_U8, {kPlanRows, kPlanCodeBytes});
    args_.scales = back_args_.scales = view_of(scales_.data(), TERN_DTYPE_F32, {kPlanRows, 1});
    back_args_.y = view_of(restored_.data(), TERN_DTYPE_F32, {kPlanRows, kPlanColumns});
    EXPECT_EQ(tern_context_stream(context_.get(), &stream_), TERN_OK);
  }

  QuantizePlan select(const tern_preference* preference = nullptr) {
    tern_ternary_quantize_plan* plan = nullptr;
    EXPECT_EQ(tern_ternary_quantize_select(context_.get(), &problem_, preference, &plan), TERN_OK)
        << tern_last_error()->text;
    return QuantizePlan(plan);
  }
  tern_status run(const QuantizePlan& plan) {
    return tern_ternary_quantize_plan_run(plan.get(), stream_, workspace_.data, sizeof(workspace_.data), &args_);
  }

  struct alignas(64) Workspace {
    std::byte data[1 << 20];
  };

  ContextHandle context_ = open_context();
  const tern_stream* stream_ = nullptr;
  std::vector<float> weights_ = make_weights(kPlanRows * kPlanColumns);
  std::vector<std::uint8_t> codes_ = std::vector<std::uint8_t>(kPlanRows * kPlanCodeBytes, 0xEE);
  std::vector<float> scales_ = std::vector<float>(kPlanRows, -1);
  std::vector<float> restored_ = std::vector<float>(kPlanRows * kPlanColumns, -99);
  tern_ternary_quantize_problem problem_ = TERN_TERNARY_QUANTIZE_PROBLEM_INIT;
  tern_ternary_quantize_args args_ = TERN_TERNARY_QUANTIZE_ARGS_INIT;
  tern_ternary_dequantize_problem back_problem_ = TERN_TERNARY_DEQUANTIZE_PROBLEM_INIT;
  tern_ternary_dequantize_args back_args_ = TERN_TERNARY_DEQUANTIZE_ARGS_INIT;
  static inline Workspace workspace_;
};

TEST_F(CPlan, QuantizesThereAndBackWithTheBitsOfCpp) {
  const QuantizePlan plan = select();
  std::size_t bytes = 0;
  EXPECT_EQ(tern_ternary_quantize_plan_workspace_bytes(plan.get(), &bytes), TERN_OK);
  ASSERT_LE(bytes, sizeof(workspace_.data));
  EXPECT_EQ(tern_ternary_quantize_plan_can_implement(plan.get(), &args_), TERN_OK);
  ASSERT_EQ(run(plan), TERN_OK) << tern_last_error()->text;

  tern_ternary_dequantize_plan* made = nullptr;
  ASSERT_EQ(tern_ternary_dequantize_select(context_.get(), &back_problem_, nullptr, &made), TERN_OK);
  const DequantizePlan back(made);
  EXPECT_EQ(tern_ternary_dequantize_plan_workspace_bytes(made, &bytes), TERN_OK);
  ASSERT_LE(bytes, sizeof(workspace_.data));
  EXPECT_EQ(tern_ternary_dequantize_plan_can_implement(made, &back_args_), TERN_OK);
  ASSERT_EQ(tern_ternary_dequantize_plan_run(made, stream_, workspace_.data, sizeof(workspace_.data), &back_args_),
            TERN_OK);

  const auto context = Context::open();
  QuantizeOptions options;
  options.granularity = Granularity::row();
  const auto expected = tern::quantize(*context, {weights_.data(), DType::f32, {kPlanRows, kPlanColumns}}, options);
  ASSERT_TRUE(expected.ok());
  const auto expected_y = tern::dequantize(*context, *expected);
  ASSERT_TRUE(expected_y.ok());
  EXPECT_TRUE(same_bytes(codes_.data(), expected->codes.data(), codes_.size()));
  EXPECT_TRUE(same_bytes(scales_.data(), expected->scales.data(), scales_.size() * sizeof(float)));
  EXPECT_TRUE(same_bytes(restored_.data(), expected_y->data(), expected_y->bytes()));
}

TEST_F(CPlan, SaysWhatItIs) {
  const QuantizePlan plan = select();
  const auto expected = TernaryQuantizePlan::select(
      *Context::open(), {.rows = kPlanRows, .k = kPlanColumns, .granularity = Granularity::row()});
  ASSERT_TRUE(expected.ok());
  const tern_plan_info* info = nullptr;
  ASSERT_EQ(tern_ternary_quantize_plan_get_info(plan.get(), &info), TERN_OK);
  EXPECT_EQ(info->struct_size, sizeof(tern_plan_info));
  EXPECT_EQ(info->id, expected->id().str());
  EXPECT_EQ(info->op, expected->id().op);
  EXPECT_EQ(info->kernel, expected->id().kernel);
  EXPECT_EQ(info->element, expected->id().element);
  EXPECT_EQ(info->layout, expected->id().layout);
  EXPECT_EQ(info->arch, expected->id().arch);
  EXPECT_EQ(info->backend, expected->id().backend);
  EXPECT_EQ(info->math, expected->guarantee().math);
  EXPECT_EQ(info->accumulator, expected->guarantee().accumulator);
  EXPECT_EQ(info->deterministic != 0, expected->guarantee().deterministic);
  EXPECT_EQ(info->bit_stable != 0, expected->guarantee().bit_stable);
}

TEST_F(CPlan, ExplainsLikeSnprintf) {
  std::size_t length = 0;
  ASSERT_EQ(tern_ternary_quantize_explain(context_.get(), &problem_, nullptr, nullptr, 0, &length), TERN_OK);
  std::string text(length + 1, '#');
  ASSERT_EQ(tern_ternary_quantize_explain(context_.get(), &problem_, nullptr, text.data(), text.size(), &length),
            TERN_OK);
  EXPECT_EQ(text.back(), '\0');
  text.pop_back();
  const tern_plan_info* info = nullptr;
  const QuantizePlan plan = select();
  ASSERT_EQ(tern_ternary_quantize_plan_get_info(plan.get(), &info), TERN_OK);
  EXPECT_EQ(text.find("chosen: " + std::string(info->kernel)), 0U) << text;
  EXPECT_NE(text.find("refused: ternary_quantize.s2.reference: "), std::string::npos) << text;

  char cut[9] = "########";
  std::size_t plan_length = 0;
  ASSERT_EQ(tern_ternary_quantize_plan_explain(plan.get(), cut, sizeof(cut), &plan_length), TERN_OK);
  EXPECT_STREQ(cut, "chosen: ");
  EXPECT_EQ(plan_length, length);
  EXPECT_FAILS(tern_ternary_quantize_plan_explain(plan.get(), nullptr, 8, &length), TERN_INVALID_ARGUMENT,
               "buffer is NULL but buffer_bytes is 8");
  EXPECT_FAILS(tern_ternary_quantize_plan_explain(plan.get(), cut, sizeof(cut), nullptr), TERN_INVALID_ARGUMENT,
               "length is NULL");
}

TEST_F(CPlan, ExplainsAlsoWhenEveryKernelRefuses) {
  back_problem_.dtype = TERN_DTYPE_I32;
  tern_ternary_dequantize_plan* plan = nullptr;
  char text[256];
  std::size_t length = 0;
  EXPECT_FAILS(tern_ternary_dequantize_select(context_.get(), &back_problem_, nullptr, &plan), TERN_UNSUPPORTED, "i32");
  EXPECT_EQ(plan, nullptr);
  ASSERT_EQ(tern_ternary_dequantize_explain(context_.get(), &back_problem_, nullptr, text, sizeof(text), &length),
            TERN_OK);
  EXPECT_EQ(std::string(text).find("chosen: none\nrefused: "), 0U) << text;
  EXPECT_GT(length, sizeof(text));
}

TEST_F(CPlan, TakesAPreference) {
  tern_preference preference = TERN_PREFERENCE_INIT;
  preference.kernel = "ternary_quantize.i2.scalar";
  const tern_plan_info* info = nullptr;
  const QuantizePlan plan = select(&preference);
  ASSERT_EQ(tern_ternary_quantize_plan_get_info(plan.get(), &info), TERN_OK);
  EXPECT_STREQ(info->kernel, "ternary_quantize.i2.scalar");
}

TEST_F(CPlan, ATuningIsForItsDeviceAndOlderPreferencesHaveNone) {
  tern_tuning tuning = TERN_TUNING_INIT;
  tern_preference preference = TERN_PREFERENCE_INIT;
  preference.tuning = &tuning;
  const tern_plan_info* info = nullptr;
  const QuantizePlan plan = select(&preference);
  ASSERT_EQ(tern_ternary_quantize_plan_get_info(plan.get(), &info), TERN_OK);
  EXPECT_EQ(info->tuning, nullptr);
  tern_ternary_quantize_plan* none = nullptr;
  const auto refused = [&](const char* text) {
    EXPECT_FAILS(tern_ternary_quantize_select(context_.get(), &problem_, &preference, &none), TERN_INVALID_ARGUMENT,
                 text);
    EXPECT_EQ(none, nullptr);
  };
  tuning.split = 4;
  refused("a tuning of split=4 is for kernels of a GPU");
  preference.struct_size = offsetof(tern_preference, tuning);
  EXPECT_NE(select(&preference), nullptr);
  preference.struct_size = sizeof(preference);
  tuning.split = 0;
  tuning.dependent_launch = 0;
  refused("a tuning of dependent=off is for kernels of a GPU");
  tuning.dependent_launch = 2;
  refused("dependent_launch is 2");
  tuning.grid = static_cast<tern_grid_strategy>(3);
  refused("preference->tuning->grid is 3");
  tuning.ahead_bytes = -2;
  tuning.grid = TERN_GRID_AUTO;
  tuning.dependent_launch = -1;
  refused("preference->tuning->ahead_bytes is -2");
  tuning.struct_size = 8;
  refused("preference->tuning->struct_size is 8");
}

TEST_F(CPlan, RefusesBadProblems) {
  tern_ternary_quantize_plan* plan = nullptr;
  const auto refused = [&](const char* text) {
    EXPECT_FAILS(tern_ternary_quantize_select(context_.get(), &problem_, nullptr, &plan), TERN_INVALID_ARGUMENT, text);
    EXPECT_EQ(plan, nullptr);
  };
  problem_.rows = -4;
  refused("-4");
  problem_.rows = kPlanRows;
  problem_.format = TERN_FORMAT_DEFAULT;
  refused("problem->format is -1");
  problem_.format = TERN_FORMAT_I2;
  problem_.dtype = static_cast<tern_dtype>(99);
  refused("problem->dtype is 99");
  problem_.dtype = TERN_DTYPE_F32;
  problem_.scheme = static_cast<tern_scheme>(-1);
  refused("problem->scheme is -1");
  problem_.struct_size = 8;
  refused("problem->struct_size is 8");
}

TEST_F(CPlan, RefusesBadArguments) {
  const QuantizePlan plan = select();
  args_.codes.data = nullptr;
  EXPECT_FAILS(run(plan), TERN_INVALID_ARGUMENT, "codes is null");
  EXPECT_FAILS(tern_ternary_quantize_plan_can_implement(plan.get(), &args_), TERN_INVALID_ARGUMENT, "codes is null");
  args_.codes.data = codes_.data();
  args_.x.shape[1] = kPlanColumns + 1;
  EXPECT_FAILS(run(plan), TERN_INVALID_ARGUMENT, "x is [3, 71]");
  args_.x.shape[1] = kPlanColumns;
  args_.scales.rank = 12;
  EXPECT_FAILS(run(plan), TERN_INVALID_ARGUMENT, "rank of scales is 12");
  args_.scales.rank = 2;
  args_.struct_size = 0;
  EXPECT_FAILS(run(plan), TERN_INVALID_ARGUMENT, "args->struct_size is 0");
  EXPECT_EQ(codes_[0], 0xEE);  // nothing was written
}

TEST_F(CPlan, RefusesForeignStreamsAndSmallWorkspaces) {
  const QuantizePlan plan = select();
  const ContextHandle other = open_context();
  const tern_stream* foreign = nullptr;
  ASSERT_EQ(tern_context_stream(other.get(), &foreign), TERN_OK);
  EXPECT_FAILS(tern_ternary_quantize_plan_run(plan.get(), foreign, workspace_.data, sizeof(workspace_.data), &args_),
               TERN_INVALID_ARGUMENT, "stream");
  EXPECT_FAILS(tern_ternary_quantize_plan_run(plan.get(), stream_, nullptr, 64, &args_), TERN_INVALID_ARGUMENT,
               "workspace is NULL but workspace_bytes is 64");
  std::size_t bytes = 0;
  ASSERT_EQ(tern_ternary_quantize_plan_workspace_bytes(plan.get(), &bytes), TERN_OK);
  if (bytes == 0) GTEST_SKIP() << "skipped: this kernel needs no workspace";
  EXPECT_FAILS(tern_ternary_quantize_plan_run(plan.get(), stream_, workspace_.data, bytes - 1, &args_),
               TERN_INVALID_ARGUMENT, "workspace");
}

TEST_F(CPlan, TakesAGivenScale) {
  const float scale = 0.25F;
  problem_.scheme = TERN_SCHEME_INT2;
  problem_.format = TERN_FORMAT_S2;
  problem_.scale_given = 1;
  args_.given_scale = view_of(&scale, TERN_DTYPE_F32, {1});
  ASSERT_EQ(run(select()), TERN_OK) << tern_last_error()->text;
  EXPECT_EQ(scales_, std::vector<float>(kPlanRows, scale));
}

}  // namespace
}  // namespace tern::c_test
