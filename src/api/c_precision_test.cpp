// Tests of the C ABI's precisions: choices with their reasons, reports as handles, refusals by name.
#include <algorithm>
#include <cmath>

#include "api/c_test.h"

namespace tern::c_test {
namespace {

constexpr std::int64_t kPrecisionM = 3, kPrecisionN = 40, kPrecisionK = 200;
using Reports = std::unique_ptr<tern_precision_reports, Destroy<tern_precision_reports_destroy>>;

class CPrecisions : public testing::Test {
 protected:
  CPrecisions() {
    const auto w = make_weights(kPrecisionN * kPrecisionK);
    quantized_ = quantize(context_.get(), view_of(w.data(), TERN_DTYPE_F32, {kPrecisionN, kPrecisionK}));
  }
  [[nodiscard]] static const tern_precision_report& report(const Reports& reports, std::size_t index) {
    const tern_precision_report* out = nullptr;
    EXPECT_EQ(tern_precision_reports_get(reports.get(), index, &out), TERN_OK) << tern_last_error()->text;
    return *out;
  }

  ContextHandle context_ = open_context();
  QuantizedHandle quantized_;
  std::vector<float> x_ = make_weights(kPrecisionM * kPrecisionK);
  tern_tensor_view tokens_ = view_of(x_.data(), TERN_DTYPE_F32, {kPrecisionM, kPrecisionK});
};

TEST_F(CPrecisions, AreResolvedWithAReason) {
  tern_dtype used = TERN_DTYPE_I8;
  std::int32_t fell_back = -1;
  char text[64];
  std::size_t length = 0;
  ASSERT_EQ(
      tern_resolve_precision(context_.get(), TERN_PRECISION_AUTO, 0, &used, &fell_back, text, sizeof(text), &length),
      TERN_OK);
  EXPECT_EQ(used, TERN_DTYPE_F32);
  EXPECT_EQ(fell_back, 0);
  EXPECT_STREQ(text, "cpu computes in f32");
  EXPECT_EQ(length, std::strlen(text));
  ASSERT_EQ(tern_resolve_precision(context_.get(), TERN_PRECISION_BF16, 1, &used, &fell_back, nullptr, 0, &length),
            TERN_OK);
  EXPECT_EQ(used, TERN_DTYPE_BF16);
  EXPECT_FAILS(tern_resolve_precision(context_.get(), static_cast<tern_precision>(4), 0, &used, &fell_back, text,
                                      sizeof(text), &length),
               TERN_INVALID_ARGUMENT, "asked is 4");
  tern_precision precision = TERN_PRECISION_F16;
  EXPECT_EQ(tern_precision_parse("auto", &precision), TERN_OK);
  EXPECT_EQ(precision, TERN_PRECISION_AUTO);
  EXPECT_STREQ(tern_precision_name(TERN_PRECISION_BF16), "bf16");
}

TEST_F(CPrecisions, AreComparedAsInCpp) {
  tern_precision_reports* made = nullptr;
  ASSERT_EQ(tern_benchmark_precision_modes(context_.get(), quantized_.get(), &tokens_, 1000, &made), TERN_OK)
      << tern_last_error()->text;
  const Reports all(made);
  std::size_t count = 0, optimal = 9;
  EXPECT_EQ(tern_precision_reports_count(all.get(), &count), TERN_OK);
  ASSERT_EQ(count, 3U);
  EXPECT_EQ(tern_precision_reports_optimal(all.get(), &optimal), TERN_OK);
  EXPECT_EQ(optimal, 0U);  // no narrower type reaches 1000 dB
  const tern_dtype types[] = {TERN_DTYPE_F32, TERN_DTYPE_F16, TERN_DTYPE_BF16};
  for (std::size_t i = 0; i < count; ++i) {
    const tern_precision_report& mode = report(all, i);
    EXPECT_EQ(mode.struct_size, sizeof(tern_precision_report));
    EXPECT_STREQ(mode.refused, "");
    EXPECT_EQ(mode.used, types[i]);
    EXPECT_EQ(mode.asked, static_cast<tern_precision>(TERN_PRECISION_F32 + static_cast<int>(i)));
    EXPECT_EQ(mode.fell_back, 0);
    EXPECT_STREQ(mode.because, "asked for");
    EXPECT_EQ(std::strncmp(mode.kernel, "linear.i2.", 10), 0) << mode.kernel;
    EXPECT_GT(mode.microseconds, 0);
    EXPECT_GT(mode.cosine, 0.999);
  }
  EXPECT_GT(report(all, 0).sqnr_db, report(all, 1).sqnr_db);
  EXPECT_GT(report(all, 1).sqnr_db, report(all, 2).sqnr_db);
  EXPECT_LT(report(all, 1).max_error, report(all, 2).max_error);

  ASSERT_EQ(tern_validate_precision_accuracy(context_.get(), quantized_.get(), &tokens_, TERN_PRECISION_F16, &made),
            TERN_OK)
      << tern_last_error()->text;
  const Reports one(made);
  EXPECT_EQ(tern_precision_reports_count(one.get(), &count), TERN_OK);
  ASSERT_EQ(count, 1U);
  EXPECT_EQ(report(one, 0).used, TERN_DTYPE_F16);
  EXPECT_EQ(report(one, 0).max_error, report(all, 1).max_error);
  const tern_precision_report* none = nullptr;
  EXPECT_FAILS(tern_precision_reports_get(one.get(), 1, &none), TERN_INVALID_ARGUMENT, "1");
}

TEST_F(CPrecisions, OfNothingButZerosHaveNoRatio) {
  std::ranges::fill(x_, 0.0F);
  tern_precision_reports* made = nullptr;
  ASSERT_EQ(tern_validate_precision_accuracy(context_.get(), quantized_.get(), &tokens_, TERN_PRECISION_AUTO, &made),
            TERN_OK)
      << tern_last_error()->text;
  const Reports one(made);
  EXPECT_TRUE(std::isnan(report(one, 0).sqnr_db));
  EXPECT_TRUE(std::isnan(report(one, 0).cosine));
  EXPECT_EQ(report(one, 0).max_error, 0);
}

TEST_F(CPrecisions, RefuseWhatDoesNotFit) {
  tern_precision_reports* made = nullptr;
  EXPECT_FAILS(tern_validate_precision_accuracy(context_.get(), quantized_.get(), &tokens_,
                                                static_cast<tern_precision>(-1), &made),
               TERN_INVALID_ARGUMENT, "precision is -1");
  tokens_.shape[1] = kPrecisionK - 1;
  EXPECT_FAILS(tern_benchmark_precision_modes(context_.get(), quantized_.get(), &tokens_, 40, &made),
               TERN_INVALID_ARGUMENT, "x is");
  EXPECT_EQ(made, nullptr);
}

}  // namespace
}  // namespace tern::c_test
