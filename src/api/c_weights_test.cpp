// Tests of the C ABI's packed weights and activation_quantize: the bits of C++, and refusals by name.
#include "api/c_test.h"
#include "tern/linear.h"

namespace tern::c_test {
namespace {

constexpr std::int64_t kWeightsM = 3, kWeightsN = 18, kWeightsK = 70;

class CWeights : public testing::Test {
 protected:
  CWeights() {
    tern_quantize_options options = TERN_QUANTIZE_OPTIONS_INIT;
    options.granularity = kByRow;
    const auto w = make_weights(kWeightsN * kWeightsK);
    quantized_ = quantize(context_.get(), view_of(w.data(), TERN_DTYPE_F32, {kWeightsN, kWeightsK}), &options);
    EXPECT_EQ(tern_context_stream(context_.get(), &stream_), TERN_OK);
  }

  struct alignas(64) Workspace {
    std::byte data[1 << 20];
  };

  ContextHandle context_ = open_context();
  const tern_stream* stream_ = nullptr;
  QuantizedHandle quantized_;
  std::vector<float> x_ = make_weights(kWeightsM * kWeightsK);
  static inline Workspace workspace_;
};
using CActivations = CWeights;

TEST_F(CWeights, AreTheSameFromPartsAndInTheCallersMemory) {
  const tern_quantized_info& q = info_of(quantized_);
  std::size_t bytes = 0;
  ASSERT_EQ(tern_packed_weights_bytes(kWeightsN, kWeightsK, kByRow, TERN_FORMAT_I2, &bytes), TERN_OK);
  ASSERT_LE(bytes, sizeof(workspace_.data));
  tern_packed_weights* made = nullptr;
  ASSERT_EQ(tern_packed_weights_create(context_.get(), &q.codes, &q.scales, kWeightsN, kWeightsK, kByRow,
                                       TERN_FORMAT_I2, workspace_.data, bytes, &made),
            TERN_OK)
      << tern_last_error()->text;
  const WeightsHandle mine(made), packed = pack(context_.get(), quantized_);
  std::uint64_t checksum = 0;
  ASSERT_EQ(tern_quantized_checksum(quantized_.get(), &checksum), TERN_OK);
  for (const tern_packed_weights* weights : {mine.get(), packed.get()}) {
    const tern_packed_weights_info* info = nullptr;
    ASSERT_EQ(tern_packed_weights_get_info(weights, &info), TERN_OK);
    EXPECT_EQ(info->struct_size, sizeof(tern_packed_weights_info));
    EXPECT_EQ(info->n, kWeightsN);
    EXPECT_EQ(info->k, kWeightsK);
    EXPECT_EQ(info->granularity.kind, TERN_GRANULARITY_ROW);
    EXPECT_EQ(info->bytes, bytes);
    EXPECT_EQ(info->checksum, checksum);
    EXPECT_STREQ(info->tile, "tile16");
  }
}

TEST_F(CWeights, TakeAsMuchMemoryAsTheDeviceOfTheContextNeeds) {
  std::size_t anywhere = 0, here = 1;
  for (const tern_format format : {TERN_FORMAT_I2, TERN_FORMAT_B3}) {
    ASSERT_EQ(tern_packed_weights_bytes(kWeightsN, kWeightsK, kByRow, format, &anywhere), TERN_OK);
    ASSERT_EQ(tern_packed_weights_bytes_on(context_.get(), kWeightsN, kWeightsK, kByRow, format, &here), TERN_OK);
    EXPECT_EQ(here, anywhere);  // the context is on a CPU
  }
  EXPECT_FAILS(tern_packed_weights_bytes_on(context_.get(), kWeightsN, -7, kByRow, TERN_FORMAT_I2, &here),
               TERN_INVALID_ARGUMENT, "-7");
}

TEST_F(CWeights, TimesOneTokenAreTheSumsOfCpp) {
  const WeightsHandle packed = pack(context_.get(), quantized_);
  std::vector<std::int8_t> a(kWeightsK);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::int8_t>(i * 37);
  std::vector<std::int32_t> got(kWeightsN, -1), want(kWeightsN, -2);
  tern_tensor_view token = view_of(a.data(), TERN_DTYPE_I8, {kWeightsK}),
                   out = view_of(got.data(), TERN_DTYPE_I32, {kWeightsN});
  const auto gemv = [&](std::int64_t m, std::int32_t stream) {
    return tern_w2a8_gemv(context_.get(), packed.get(), &token, &out, m, kWeightsK, stream);
  };
  ASSERT_EQ(gemv(kWeightsN, 0), TERN_OK) << tern_last_error()->text;

  const auto context = Context::open();
  const tern_quantized_info& q = info_of(quantized_);
  const auto cpp = PackedWeights::pack(*context, {q.codes.data, DType::u8, {kWeightsN, (kWeightsK + 3) / 4}},
                                       {q.scales.data, DType::f32, {static_cast<std::int64_t>(q.scale_count)}},
                                       kWeightsN, kWeightsK, Granularity::row());
  ASSERT_TRUE(cpp.ok());
  ASSERT_TRUE(w2a8_gemv(*context, *cpp, {a.data(), DType::i8, {kWeightsK}}, {want.data(), DType::i32, {kWeightsN}},
                        kWeightsN, kWeightsK)
                  .ok());
  EXPECT_EQ(got, want);

  EXPECT_FAILS(gemv(kWeightsN + 1, 0), TERN_INVALID_ARGUMENT, "w is 18 x 70, m and k are 19 x 70");
  EXPECT_FAILS(gemv(kWeightsN, -1), TERN_INVALID_ARGUMENT, "there is no stream -1");
  out.dtype = TERN_DTYPE_F32;
  EXPECT_FAILS(gemv(kWeightsN, 0), TERN_INVALID_ARGUMENT, "out is f32");
  token.dtype = static_cast<tern_dtype>(70);
  EXPECT_FAILS(gemv(kWeightsN, 0), TERN_INVALID_ARGUMENT, "a.dtype is 70");
}

TEST_F(CWeights, AreRefusedByName) {
  const tern_quantized_info& q = info_of(quantized_);
  tern_tensor_view codes = q.codes, scales = q.scales;
  tern_packed_weights* made = nullptr;
  const auto create = [&](tern_granularity granularity, void* memory, std::size_t memory_bytes) {
    return tern_packed_weights_create(context_.get(), &codes, &scales, kWeightsN, kWeightsK, granularity,
                                      TERN_FORMAT_I2, memory, memory_bytes, &made);
  };
  EXPECT_FAILS(create(kByRow, nullptr, 64), TERN_INVALID_ARGUMENT, "memory is NULL but memory_bytes is 64");
  EXPECT_FAILS(create(kByRow, workspace_.data, 1), TERN_INVALID_ARGUMENT, "memory has 1 bytes");
  EXPECT_FAILS(create(kByRow, workspace_.data + 1, 1 << 16), TERN_INVALID_ARGUMENT, "not aligned");
  EXPECT_FAILS(create({static_cast<tern_granularity_kind>(5), 0}, nullptr, 0), TERN_INVALID_ARGUMENT,
               "granularity.kind is 5");
  codes.data = nullptr;
  EXPECT_FAILS(create(kByRow, nullptr, 0), TERN_INVALID_ARGUMENT, "codes is null");
  codes = q.codes;
  scales.dtype = static_cast<tern_dtype>(77);
  EXPECT_FAILS(create(kByRow, nullptr, 0), TERN_INVALID_ARGUMENT, "scales.dtype is 77");
  scales = q.scales;
  std::vector<std::uint8_t> wrong(kWeightsN * 18, 0b01'01'01'01);
  wrong[18 + 2] = 0b01'11'01'01;
  codes.data = wrong.data();
  EXPECT_FAILS(create(kByRow, nullptr, 0), TERN_INVALID_QUANTIZED_VALUE, "codes[1, 10]");
  EXPECT_EQ(tern_last_error()->index, kWeightsK + 10);
  EXPECT_EQ(made, nullptr);
  std::size_t bytes = 0;
  EXPECT_FAILS(tern_packed_weights_bytes(-3, kWeightsK, kByRow, TERN_FORMAT_I2, &bytes), TERN_INVALID_ARGUMENT, "-3");
}

TEST_F(CWeights, ThatAreNoTritsAreUnsupported) {
  tern_quantize_options options = TERN_QUANTIZE_OPTIONS_INIT;
  options.scheme = TERN_SCHEME_INT2;
  const QuantizedHandle int2 =
      quantize(context_.get(), view_of(x_.data(), TERN_DTYPE_F32, {kWeightsM, kWeightsK}), &options);
  tern_packed_weights* made = nullptr;
  EXPECT_FAILS(tern_packed_weights_create_from_quantized(context_.get(), int2.get(), nullptr, 0, &made),
               TERN_UNSUPPORTED, "int2");
  EXPECT_EQ(made, nullptr);
}

TEST_F(CActivations, QuantizesActivationsWithTheBitsOfCpp) {
  tern_activation_quantize_problem problem = TERN_ACTIVATION_QUANTIZE_PROBLEM_INIT;
  tern_activation_quantize_args args = TERN_ACTIVATION_QUANTIZE_ARGS_INIT;
  tern_activation_quantize_plan* made = nullptr;
  std::vector<std::int32_t> sums(kWeightsM, -1), expected_sums(kWeightsM, -2);
  std::vector<float> scales(kWeightsM), expected_scales(kWeightsM, -2);
  std::vector<std::int8_t> q(kWeightsM * kWeightsK, -1), expected_q(kWeightsM * kWeightsK, -2);
  problem.m = kWeightsM;
  problem.k = kWeightsK;
  args.x = view_of(x_.data(), TERN_DTYPE_F32, {kWeightsM, kWeightsK});
  args.q = view_of(q.data(), TERN_DTYPE_I8, {kWeightsM, kWeightsK});
  args.scales = view_of(scales.data(), TERN_DTYPE_F32, {kWeightsM});
  args.sums = view_of(sums.data(), TERN_DTYPE_I32, {kWeightsM});
  ASSERT_EQ(tern_activation_quantize_select(context_.get(), &problem, nullptr, &made), TERN_OK);
  const ActivationPlan plan(made);
  EXPECT_EQ(tern_activation_quantize_plan_can_implement(made, &args), TERN_OK) << tern_last_error()->text;
  const auto run = [&] {
    return tern_activation_quantize_plan_run(plan.get(), stream_, workspace_.data, sizeof(workspace_.data), &args);
  };
  ASSERT_EQ(run(), TERN_OK) << tern_last_error()->text;

  const auto context = Context::open();
  const auto cpp_plan = ActivationQuantizePlan::select(*context, {.m = kWeightsM, .k = kWeightsK});
  ASSERT_TRUE(cpp_plan.ok());
  ASSERT_TRUE(cpp_plan
                  ->run(context->stream(), {workspace_.data, sizeof(workspace_.data)},
                        {.x = {x_.data(), DType::f32, {kWeightsM, kWeightsK}},
                         .q = {expected_q.data(), DType::i8, {kWeightsM, kWeightsK}},
                         .scales = {expected_scales.data(), DType::f32, {kWeightsM}},
                         .sums = {expected_sums.data(), DType::i32, {kWeightsM}}})
                  .ok());
  EXPECT_EQ(q, expected_q);
  EXPECT_EQ(scales, expected_scales);
  EXPECT_EQ(sums, expected_sums);

  args.sums.data = nullptr;
  EXPECT_FAILS(run(), TERN_INVALID_ARGUMENT, "sums is null");
  args.q.dtype = static_cast<tern_dtype>(-2);
  EXPECT_FAILS(run(), TERN_INVALID_ARGUMENT, "q.dtype is -2");
  problem.dtype = static_cast<tern_dtype>(50);
  EXPECT_FAILS(tern_activation_quantize_select(context_.get(), &problem, nullptr, &made), TERN_INVALID_ARGUMENT,
               "problem->dtype is 50");
}

}  // namespace
}  // namespace tern::c_test
