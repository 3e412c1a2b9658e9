// Tests of the C ABI's quantization: bit for bit what C++ answers, and every refusal.
#include <cmath>
#include <limits>

#include "api/c_test.h"
#include "tern/quantize.h"

namespace tern::c_test {
namespace {

constexpr std::int64_t kRows = 7, kColumns = 131;

class CQuantize : public testing::Test {
 protected:
  ContextHandle context_ = open_context();
  std::vector<float> weights_ = make_weights(kRows * kColumns);
  tern_tensor_view x_ = view_of(weights_.data(), TERN_DTYPE_F32, {kRows, kColumns});
  tern_quantize_options options_ = TERN_QUANTIZE_OPTIONS_INIT;
  tern_quantized* none_ = nullptr;

  tern_status fail() { return tern_quantize(context_.get(), &x_, &options_, &none_); }
};

TEST_F(CQuantize, AnswersTheSameBitsAsCpp) {
  const auto cpp_context = Context::open();
  ASSERT_TRUE(cpp_context.ok());
  const ConstTensorView cpp_x(weights_.data(), DType::f32, {kRows, kColumns});
  for (int scheme = 0; scheme <= TERN_SCHEME_INT2; ++scheme)
    for (int kind = 0; kind <= TERN_GRANULARITY_GROUP; ++kind)
      for (const tern_format format : {TERN_FORMAT_DEFAULT, TERN_FORMAT_I8, TERN_FORMAT_B3}) {
        if (format == TERN_FORMAT_B3 && scheme == TERN_SCHEME_INT2) continue;  // no trits
        options_.scheme = static_cast<tern_scheme>(scheme);
        options_.granularity = {static_cast<tern_granularity_kind>(kind), kind == TERN_GRANULARITY_GROUP ? 50 : 0};
        options_.format = format;
        options_.measure_quality = 1;
        QuantizeOptions cpp_options;
        cpp_options.scheme = static_cast<Scheme>(scheme);
        cpp_options.granularity = {static_cast<Granularity::Kind>(kind), options_.granularity.group_size};
        if (format != TERN_FORMAT_DEFAULT) cpp_options.format = static_cast<Format>(format);
        cpp_options.measure_quality = true;
        SCOPED_TRACE(std::string(tern_scheme_name(options_.scheme)) + " " + name(cpp_options.granularity) + " " +
                     tern_format_name(format));

        const QuantizedHandle quantized = quantize(context_.get(), x_, &options_);
        const auto expected = tern::quantize(*cpp_context, cpp_x, cpp_options);
        ASSERT_TRUE(expected.ok());
        const tern_quantized_info& info = info_of(quantized);
        ASSERT_EQ(info.codes_bytes, expected->codes.bytes());
        ASSERT_EQ(info.scale_count, expected->scale_values().size());
        EXPECT_TRUE(same_bytes(info.codes.data, expected->codes.data(), info.codes_bytes));
        EXPECT_TRUE(same_bytes(info.scales.data, expected->scales.data(), info.scale_count * sizeof(float)));
        EXPECT_EQ(info.codes.rank, 2);
        EXPECT_EQ(info.codes.shape[1], expected->codes.shape()[1]);
        EXPECT_EQ(static_cast<int>(info.format), static_cast<int>(expected->format));
        EXPECT_EQ(info.granularity.group_size, expected->granularity.group_size);
        EXPECT_EQ(info.block_size, expected->block_size());
        EXPECT_EQ(info.kernel, expected->kernel);
        ASSERT_NE(info.quality, nullptr);
        EXPECT_EQ(info.quality->sqnr_db, expected->quality->sqnr_db);
        EXPECT_EQ(info.quality->cosine, expected->quality->cosine);
        EXPECT_EQ(info.quality->zero_fraction, expected->quality->zero_fraction);
        std::uint64_t checksum = 0;
        EXPECT_EQ(tern_quantized_checksum(quantized.get(), &checksum), TERN_OK);
        EXPECT_EQ(checksum, expected->checksum());
        EXPECT_EQ(tern_validate(quantized.get()), TERN_OK);

        tern_tensor* restored = nullptr;
        ASSERT_EQ(tern_dequantize(context_.get(), quantized.get(), TERN_DTYPE_F32, &restored), TERN_OK);
        const TensorHandle owner(restored);
        tern_tensor_view y = TERN_TENSOR_VIEW_INIT;
        EXPECT_EQ(tern_tensor_get_view(restored, &y), TERN_OK);
        const auto expected_y = tern::dequantize(*cpp_context, *expected);
        ASSERT_TRUE(expected_y.ok());
        EXPECT_EQ(y.shape[0], kRows);
        EXPECT_TRUE(same_bytes(y.data, expected_y->data(), expected_y->bytes()));
      }
}

TEST_F(CQuantize, DefaultsAreTheCppDefaults) {
  const QuantizedHandle quantized = quantize(context_.get(), x_);
  const tern_quantized_info& info = info_of(quantized);
  EXPECT_EQ(info.struct_size, sizeof(tern_quantized_info));
  EXPECT_EQ(info.scheme, TERN_SCHEME_ABSMEAN);
  EXPECT_EQ(info.format, TERN_FORMAT_I2);
  EXPECT_EQ(info.granularity.kind, TERN_GRANULARITY_TENSOR);
  EXPECT_EQ(info.quality, nullptr);
  EXPECT_EQ(info.rank, 2);
  EXPECT_EQ(info.shape[1], kColumns);
  EXPECT_EQ(info.rows, kRows);
  EXPECT_EQ(info.k, kColumns);
}

TEST_F(CQuantize, ReadsStridedRows) {
  std::vector<float> wide(kRows * (kColumns + 5), std::numeric_limits<float>::quiet_NaN());
  for (std::int64_t r = 0; r < kRows; ++r)
    std::copy_n(&weights_[static_cast<std::size_t>(r * kColumns)], kColumns,
                &wide[static_cast<std::size_t>(r * (kColumns + 5))]);
  auto strided = view_of(wide.data(), TERN_DTYPE_F32, {kRows, kColumns});
  strided.strides[0] = kColumns + 5;
  strided.strides[1] = 1;
  std::uint64_t a = 0, b = 1;
  EXPECT_EQ(tern_quantized_checksum(quantize(context_.get(), x_).get(), &a), TERN_OK);
  EXPECT_EQ(tern_quantized_checksum(quantize(context_.get(), strided).get(), &b), TERN_OK);
  EXPECT_EQ(a, b);
}

TEST_F(CQuantize, TakesAGivenScale) {
  const float scale = 0.7F;
  options_.scheme = TERN_SCHEME_INT2;
  options_.scale = &scale;
  options_.scale_count = 1;
  const QuantizedHandle quantized = quantize(context_.get(), x_, &options_);
  EXPECT_EQ(*static_cast<const float*>(info_of(quantized).scales.data), scale);
  const float bad = -1;
  options_.scale = &bad;
  EXPECT_FAILS(fail(), TERN_INVALID_SCALE, "-1");
  options_.scale_count = 0;
  EXPECT_FAILS(fail(), TERN_INVALID_ARGUMENT, "scale is not NULL but scale_count is 0");
  options_.scale = nullptr;
  options_.scale_count = 2;
  EXPECT_FAILS(fail(), TERN_INVALID_ARGUMENT, "scale is NULL but scale_count is 2");
}

TEST_F(CQuantize, UsesThePreferredKernel) {
  tern_preference preference = TERN_PREFERENCE_INIT;
  preference.kernel = "ternary_quantize.i2.reference";
  preference.strict = 1;
  options_.preference = &preference;
  EXPECT_STREQ(info_of(quantize(context_.get(), x_, &options_)).kernel, "ternary_quantize.i2.reference");
  preference.kernel = "ternary_quantize.s2.reference";
  EXPECT_NE(fail(), TERN_OK);
  EXPECT_NE(std::string(tern_last_error()->message).find("ternary_quantize.s2.reference"), std::string::npos);
  preference.struct_size = 1;
  EXPECT_FAILS(fail(), TERN_INVALID_ARGUMENT, "preference->struct_size is 1");
}

TEST_F(CQuantize, HoldsTheLimitsOfTheCaller) {
  options_.min_sqnr_db = 60;
  EXPECT_FAILS(fail(), TERN_QUALITY_BELOW_LIMIT, "SQNR");
  options_.min_sqnr_db = NAN;
  options_.min_cosine = 0.9999;
  EXPECT_FAILS(fail(), TERN_QUALITY_BELOW_LIMIT, "cosine");
  options_.min_cosine = NAN;
  options_.max_zero_fraction = 0;
  EXPECT_FAILS(fail(), TERN_QUALITY_BELOW_LIMIT, "zeros");
  options_.max_zero_fraction = 1;
  EXPECT_NE(info_of(quantize(context_.get(), x_, &options_)).quality, nullptr);
}

TEST_F(CQuantize, NamesTheFirstNonFiniteElement) {
  weights_[400] = NAN;
  EXPECT_FAILS(fail(), TERN_NON_FINITE, "400");
  EXPECT_EQ(tern_last_error()->index, 400);
  options_.non_finite = TERN_NON_FINITE_SATURATE;
  EXPECT_EQ(tern_validate(quantize(context_.get(), x_, &options_).get()), TERN_OK);
}

TEST_F(CQuantize, RefusesBadViews) {
  x_.data = nullptr;
  EXPECT_FAILS(fail(), TERN_INVALID_ARGUMENT, "x is null");
  x_ = view_of(weights_.data(), TERN_DTYPE_F32, {kRows, 0});
  EXPECT_FAILS(fail(), TERN_EMPTY_INPUT, "[7, 0]");
  x_ = view_of(weights_.data(), TERN_DTYPE_F32, {-7, -131});
  EXPECT_FAILS(fail(), TERN_INVALID_ARGUMENT, "-7");
  x_.rank = 9;
  EXPECT_FAILS(fail(), TERN_INVALID_ARGUMENT, "the rank of x is 9");
  x_.rank = -1;
  EXPECT_FAILS(fail(), TERN_INVALID_ARGUMENT, "the rank of x is -1");
  x_ = view_of(weights_.data(), static_cast<tern_dtype>(256), {kRows, kColumns});
  EXPECT_FAILS(fail(), TERN_INVALID_ARGUMENT, "x.dtype is 256");
  x_.dtype = TERN_DTYPE_F32;
  x_.device.kind = static_cast<tern_device_kind>(-2);
  EXPECT_FAILS(fail(), TERN_INVALID_ARGUMENT, "x.device.kind is -2");
  EXPECT_EQ(none_, nullptr);
}

TEST_F(CQuantize, RefusesBadOptions) {
  options_.scheme = static_cast<tern_scheme>(4);
  EXPECT_FAILS(fail(), TERN_INVALID_ARGUMENT, "scheme is 4");
  options_ = TERN_QUANTIZE_OPTIONS_INIT;
  options_.format = static_cast<tern_format>(-2);
  EXPECT_FAILS(fail(), TERN_INVALID_ARGUMENT, "format is -2");
  options_ = TERN_QUANTIZE_OPTIONS_INIT;
  options_.granularity = {TERN_GRANULARITY_GROUP, 0};
  EXPECT_FAILS(fail(), TERN_INVALID_ARGUMENT, "group size is 0");
  options_.granularity.kind = static_cast<tern_granularity_kind>(3);
  EXPECT_FAILS(fail(), TERN_INVALID_ARGUMENT, "granularity.kind is 3");
  options_ = TERN_QUANTIZE_OPTIONS_INIT;
  options_.non_finite = static_cast<tern_non_finite>(2);
  EXPECT_FAILS(fail(), TERN_INVALID_ARGUMENT, "non_finite is 2");
  options_.struct_size = 0;
  EXPECT_FAILS(fail(), TERN_INVALID_ARGUMENT, "options->struct_size is 0");
}

TEST_F(CQuantize, MeasuresQuality) {
  const QuantizedHandle quantized = quantize(context_.get(), x_);
  tern_quality quality = TERN_QUALITY_INIT;
  ASSERT_EQ(tern_measure_quality(context_.get(), &x_, quantized.get(), TERN_NON_FINITE_REJECT, &quality), TERN_OK);
  EXPECT_GT(quality.sqnr_db, 1);
  EXPECT_GT(quality.cosine, 0.5);
  EXPECT_EQ(quality.struct_size, sizeof(quality));

  std::vector<float> zeros(kRows * kColumns, 0.0F);
  const auto nothing = view_of(zeros.data(), TERN_DTYPE_F32, {kRows, kColumns});
  const QuantizedHandle all_zero = quantize(context_.get(), nothing);
  ASSERT_EQ(tern_measure_quality(context_.get(), &nothing, all_zero.get(), TERN_NON_FINITE_REJECT, &quality), TERN_OK);
  EXPECT_TRUE(std::isnan(quality.sqnr_db));  // 0/0
  EXPECT_EQ(quality.zero_fraction, 1);

  const auto other = view_of(weights_.data(), TERN_DTYPE_F32, {kColumns, kRows});
  EXPECT_NE(tern_measure_quality(context_.get(), &other, quantized.get(), TERN_NON_FINITE_REJECT, &quality), TERN_OK);
  EXPECT_FAILS(tern_measure_quality(context_.get(), &x_, quantized.get(), static_cast<tern_non_finite>(5), &quality),
               TERN_INVALID_ARGUMENT, "non_finite is 5");
  quality.struct_size = 0;
  EXPECT_FAILS(tern_measure_quality(context_.get(), &x_, quantized.get(), TERN_NON_FINITE_REJECT, &quality),
               TERN_INVALID_ARGUMENT, "out->struct_size is 0");
}

TEST_F(CQuantize, RefusesToDequantizeToWhatNoKernelWrites) {
  const QuantizedHandle quantized = quantize(context_.get(), x_);
  tern_tensor* tensor = nullptr;
  EXPECT_FAILS(tern_dequantize(context_.get(), quantized.get(), TERN_DTYPE_I32, &tensor), TERN_UNSUPPORTED, "i32");
  EXPECT_EQ(tensor, nullptr);
  EXPECT_FAILS(tern_dequantize(context_.get(), quantized.get(), static_cast<tern_dtype>(7), &tensor),
               TERN_INVALID_ARGUMENT, "dtype is 7");
}

}  // namespace
}  // namespace tern::c_test
