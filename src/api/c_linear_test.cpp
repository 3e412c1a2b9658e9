// Tests of the C ABI's linear: the bits of C++, and refusals by name.
#include "tern/linear.h"

#include <array>

#include "api/c_test.h"

namespace tern::c_test {
namespace {

constexpr std::int64_t kLinearM = 3, kLinearK = 70, kLinearN[] = {5, 18};

// Two matrices that share x: [0] with every part of an epilogue, [1] with none.
class CLinear : public testing::Test {
 protected:
  CLinear() {
    EXPECT_EQ(tern_context_stream(context_.get(), &stream_), TERN_OK);
    tern_quantize_options options = TERN_QUANTIZE_OPTIONS_INIT;
    options.granularity = kByRow;
    for (std::size_t i = 0; i < 2; ++i) {
      const auto w = make_weights(kLinearN[i] * kLinearK);
      const QuantizedHandle quantized =
          quantize(context_.get(), view_of(w.data(), TERN_DTYPE_F32, {kLinearN[i], kLinearK}), &options);
      packed_[i] = pack(context_.get(), quantized);
      matrices_[i].n = kLinearN[i];
      matrices_[i].granularity = kByRow;
      y_[i].assign(static_cast<std::size_t>(kLinearM * kLinearN[i]), -99);
      outputs_[i].weights = packed_[i].get();
      outputs_[i].y = view_of(y_[i].data(), TERN_DTYPE_F32, {kLinearM, kLinearN[i]});
    }
    matrices_[0].bias = matrices_[0].residual = 1;
    matrices_[0].activation = TERN_ACTIVATION_SQUARED_RELU;
    outputs_[0].bias = view_of(bias_.data(), TERN_DTYPE_F32, {kLinearN[0]});
    outputs_[0].residual = view_of(residual_.data(), TERN_DTYPE_F32, {kLinearM, kLinearN[0]});
    problem_.m_max = kLinearM;
    problem_.k = kLinearK;
    problem_.matrices = matrices_.data();
    problem_.matrix_count = 2;
    args_.outputs = outputs_.data();
    args_.output_count = 2;
    for (std::size_t i = 0; i < q_.size(); ++i) q_[i] = static_cast<std::int8_t>(i * 89 % 256);
    use_int8();
  }

  void use_int8() {
    problem_.x_dtype = TERN_DTYPE_I8;
    args_.x = view_of(q_.data(), TERN_DTYPE_I8, {kLinearM, kLinearK});
    args_.x_scales = view_of(x_scales_.data(), TERN_DTYPE_F32, {kLinearM});
  }
  void use_f32() {
    problem_.x_dtype = TERN_DTYPE_F32;
    args_.x = view_of(x_.data(), TERN_DTYPE_F32, {kLinearM, kLinearK});
    args_.x_scales = TERN_TENSOR_VIEW_INIT;
  }

  LinearPlanHandle select() {
    tern_linear_plan* plan = nullptr;
    EXPECT_EQ(tern_linear_select(context_.get(), &problem_, nullptr, &plan), TERN_OK) << tern_last_error()->text;
    return LinearPlanHandle(plan);
  }
  tern_status run(const LinearPlanHandle& plan) {
    return tern_linear_plan_run(plan.get(), stream_, workspace_.data, sizeof(workspace_.data), &args_);
  }
  void expect_refused(const char* text) {
    tern_linear_plan* plan = nullptr;
    EXPECT_FAILS(tern_linear_select(context_.get(), &problem_, nullptr, &plan), TERN_INVALID_ARGUMENT, text);
    EXPECT_EQ(plan, nullptr);
  }

  // The same results through C++, starting from the weights.
  std::array<std::vector<float>, 2> cpp_results(const Linear::Problem& shape, const ConstTensorView& x,
                                                const ConstTensorView& x_scales) {
    std::array<std::vector<float>, 2> y;
    std::array<Linear::Output, 2> outputs;
    const auto context = Context::open();
    Linear::Problem problem = shape;
    problem.m_max = kLinearM;
    problem.k = kLinearK;
    problem.matrices = {{.n = kLinearN[0],
                         .granularity = Granularity::row(),
                         .bias = true,
                         .activation = Activation::squared_relu,
                         .residual = true},
                        {.n = kLinearN[1], .granularity = Granularity::row()}};
    for (std::size_t i = 0; i < 2; ++i) {
      const auto w = make_weights(kLinearN[i] * kLinearK);
      const auto q = tern::quantize(*context, {w.data(), DType::f32, {kLinearN[i], kLinearK}},
                                    {.granularity = Granularity::row()});
      const auto packed = PackedWeights::pack(*context, *q);
      EXPECT_TRUE(packed.ok());
      y[i].assign(static_cast<std::size_t>(kLinearM * kLinearN[i]), -77);
      outputs[i] = {.weights = *packed, .y = {y[i].data(), DType::f32, {kLinearM, kLinearN[i]}}};
    }
    outputs[0].bias = {bias_.data(), DType::f32, {kLinearN[0]}};
    outputs[0].residual = {residual_.data(), DType::f32, {kLinearM, kLinearN[0]}};
    const auto plan = LinearPlan::select(*context, problem);
    EXPECT_TRUE(plan.ok());
    const Status status = plan->run(context->stream(), {workspace_.data, sizeof(workspace_.data)},
                                    {.x = x, .x_scales = x_scales, .outputs = outputs});
    EXPECT_TRUE(status.ok());
    return y;
  }
  void expect_bits(const std::array<std::vector<float>, 2>& expected) {
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(same_bytes(y_[i].data(), expected[i].data(), y_[i].size() * sizeof(float))) << "matrix " << i;
  }

  struct alignas(64) Workspace {
    std::byte data[1 << 20];
  };

  ContextHandle context_ = open_context();
  const tern_stream* stream_ = nullptr;
  std::vector<float> x_ = make_weights(kLinearM * kLinearK);
  std::vector<std::int8_t> q_ = std::vector<std::int8_t>(kLinearM * kLinearK);
  std::vector<float> x_scales_ = {0.7F, 33.1F, 127};
  std::vector<float> bias_ = make_weights(kLinearN[0]), residual_ = make_weights(kLinearM * kLinearN[0]);
  std::array<WeightsHandle, 2> packed_;
  std::array<std::vector<float>, 2> y_;
  std::array<tern_linear_matrix, 2> matrices_ = {{TERN_LINEAR_MATRIX_INIT, TERN_LINEAR_MATRIX_INIT}};
  std::array<tern_linear_output, 2> outputs_ = {{TERN_LINEAR_OUTPUT_INIT, TERN_LINEAR_OUTPUT_INIT}};
  tern_linear_problem problem_ = TERN_LINEAR_PROBLEM_INIT;
  tern_linear_args args_ = TERN_LINEAR_ARGS_INIT;
  static inline Workspace workspace_;
};

TEST_F(CLinear, MultipliesInt8WithTheBitsOfCpp) {
  const LinearPlanHandle plan = select();
  std::size_t bytes = 0;
  ASSERT_EQ(tern_linear_plan_workspace_bytes(plan.get(), &bytes), TERN_OK);
  ASSERT_LE(bytes, sizeof(workspace_.data));
  EXPECT_EQ(tern_linear_plan_can_implement(plan.get(), &args_), TERN_OK) << tern_last_error()->text;
  ASSERT_EQ(run(plan), TERN_OK) << tern_last_error()->text;
  expect_bits(cpp_results({.x_dtype = DType::i8}, {q_.data(), DType::i8, {kLinearM, kLinearK}},
                          {x_scales_.data(), DType::f32, {kLinearM}}));
}

TEST_F(CLinear, MultipliesFloatsWithTheBitsOfCpp) {
  use_f32();
  for (const LinearMath math : {LinearMath::w2a8, LinearMath::w2_float}) {
    problem_.math = static_cast<tern_linear_math>(math);
    const LinearPlanHandle plan = select();
    ASSERT_EQ(run(plan), TERN_OK) << tern_last_error()->text;
    expect_bits(cpp_results({.x_dtype = DType::f32, .math = math}, {x_.data(), DType::f32, {kLinearM, kLinearK}}, {}));
  }
}

TEST_F(CLinear, PassesThePolicyForNonFiniteOn) {
  use_f32();
  x_[kLinearK + 4] = NAN;
  EXPECT_FAILS(run(select()), TERN_NON_FINITE, "x[1, 4]");
  EXPECT_EQ(tern_last_error()->index, kLinearK + 4);
  problem_.non_finite = TERN_NON_FINITE_SATURATE;
  EXPECT_EQ(run(select()), TERN_OK) << tern_last_error()->text;
}

TEST_F(CLinear, SaysWhatItIs) {
  const tern_plan_info* info = nullptr;
  const LinearPlanHandle plan = select();
  ASSERT_EQ(tern_linear_plan_get_info(plan.get(), &info), TERN_OK);
  EXPECT_STREQ(info->op, "linear");
  EXPECT_STREQ(info->epilogue, "bias+squared_relu+residual,none");
  EXPECT_STREQ(info->accumulator, "int32");
  char text[512];
  std::size_t length = 0;
  ASSERT_EQ(tern_linear_explain(context_.get(), &problem_, nullptr, text, sizeof(text), &length), TERN_OK);
  EXPECT_EQ(std::string(text).find("chosen: " + std::string(info->kernel)), 0U) << text;
}

TEST_F(CLinear, RefusesBadProblems) {
  const tern_linear_problem good = problem_;
  problem_.x_dtype = static_cast<tern_dtype>(99);
  expect_refused("problem->x_dtype is 99");
  problem_ = good;
  problem_.math = static_cast<tern_linear_math>(2);
  expect_refused("problem->math is 2");
  problem_ = good;
  problem_.non_finite = static_cast<tern_non_finite>(-1);
  expect_refused("problem->non_finite is -1");
  problem_ = good;
  problem_.format = TERN_FORMAT_DEFAULT;
  expect_refused("problem->format is -1");
  problem_ = good;
  problem_.m_max = -4;
  expect_refused("-4");
  problem_ = good;
  problem_.struct_size = 8;
  expect_refused("problem->struct_size is 8");
}

TEST_F(CLinear, RefusesBadMatrices) {
  problem_.matrix_count = 9;  // too many: refused before any is read
  expect_refused("problem->matrix_count is 9");
  problem_.matrix_count = 0;
  expect_refused("0 matrices");
  problem_.matrix_count = 2;
  problem_.matrices = nullptr;
  expect_refused("problem->matrices is NULL but problem->matrix_count is 2");
  problem_.matrices = matrices_.data();

  const tern_linear_matrix good = matrices_[1];
  matrices_[1].activation = static_cast<tern_activation>(3);
  expect_refused("problem->matrices[1].activation is 3");
  matrices_[1] = good;
  matrices_[1].y_dtype = static_cast<tern_dtype>(-7);
  expect_refused("problem->matrices[1].y_dtype is -7");
  matrices_[1] = good;
  matrices_[1].granularity.kind = static_cast<tern_granularity_kind>(3);
  expect_refused("problem->matrices[1].granularity.kind is 3");
  matrices_[1] = good;
  matrices_[1].struct_size = 0;
  expect_refused("problem->matrices[1].struct_size is 0");
  matrices_[1] = good;
  matrices_[0].struct_size = 0;
  expect_refused("problem->matrices->struct_size is 0");
  matrices_[0].struct_size = sizeof(tern_linear_matrix) + 1;
  expect_refused("not a multiple of 8");
}

TEST_F(CLinear, StepsOverWhatANewerCallersMatricesHaveMore) {
  struct Newer {
    tern_linear_matrix known;
    std::uint64_t unknown;
  } newer[2] = {{matrices_[0], 0}, {matrices_[1], 0}};
  for (Newer& matrix : newer) matrix.known.struct_size = sizeof(Newer);
  problem_.matrices = &newer[0].known;
  const LinearPlanHandle plan = select();
  ASSERT_EQ(run(plan), TERN_OK) << tern_last_error()->text;
  newer[1].unknown = 1;
  expect_refused("does not have");
}

TEST_F(CLinear, RefusesBadArguments) {
  const LinearPlanHandle plan = select();
  const auto refused = [&](const char* text) {
    EXPECT_FAILS(run(plan), TERN_INVALID_ARGUMENT, text);
    EXPECT_FAILS(tern_linear_plan_can_implement(plan.get(), &args_), TERN_INVALID_ARGUMENT, text);
  };
  const tern_linear_args good_args = args_;
  const tern_linear_output good = outputs_[1];
  args_.output_count = 9;  // too many: refused before any is read
  refused("args->output_count is 9");
  args_.output_count = 1;
  refused("1 outputs for 2 matrices");
  args_ = good_args;
  args_.outputs = nullptr;
  refused("args->outputs is NULL but args->output_count is 2");
  args_ = good_args;
  args_.x.data = nullptr;
  refused("x is null");
  args_ = good_args;
  args_.x_scales.data = nullptr;
  refused("x_scales is null");
  args_ = good_args;
  args_.x.dtype = static_cast<tern_dtype>(42);
  refused("x.dtype is 42");
  args_ = good_args;
  outputs_[1].weights = nullptr;
  refused("args->outputs[1].weights is NULL");
  outputs_[1].weights = packed_[0].get();
  refused("weights[1] are 5 x 70");
  outputs_[1] = good;
  outputs_[1].y.data = nullptr;
  refused("y[1] is null");
  outputs_[1] = good;
  outputs_[1].y.rank = 12;
  refused("rank of args->outputs[1].y is 12");
  outputs_[1] = good;
  outputs_[1].residual.dtype = static_cast<tern_dtype>(8);
  refused("args->outputs[1].residual.dtype is 8");
  outputs_[1] = good;
  outputs_[1].struct_size += 8;
  refused("args->outputs[1].struct_size is");
  outputs_[1] = good;
  outputs_[0].bias.data = nullptr;
  refused("bias[0] is null");
  EXPECT_EQ(y_[0][0], -99);  // nothing was written
  EXPECT_EQ(y_[1][0], -99);
}

}  // namespace
}  // namespace tern::c_test
