// quantize(), dequantize(), validate() and quality as a user calls them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "base/elements.h"
#include "format/format.h"
#include "lab/weights.h"
#include "plan/gpu_quantize.h"
#include "tern/quantize.h"

namespace tern {
namespace {

Context open(ContextConfig config = {}) {
  auto context = Context::open(std::move(config));
  EXPECT_TRUE(context.ok());
  return *context;
}

std::vector<float> weights(std::int64_t n) {
  std::vector<float> x(static_cast<std::size_t>(n));
  lab::Random random(1);
  lab::fill_weights(lab::Pattern::gaussian, random, x.data(), n);
  return x;
}

ConstTensorView view(const std::vector<float>& x, const Shape& shape) { return {x.data(), DType::f32, shape}; }

TEST(QuantizeApi, SevenElements) {
  const std::vector<float> x = {0.9F, -1.2F, 0.1F, 0.0F, 2.0F, -0.05F, 0.6F};
  auto q = quantize(open(), view(x, {7}), {.scheme = Scheme::absmax, .format = Format::i8});
  ASSERT_TRUE(q.ok()) << q.error().str();
  EXPECT_EQ(q->scale_values()[0], 2.0F);
  const std::vector<std::int8_t> want = {0, -1, 0, 0, 1, 0, 0};
  EXPECT_EQ(std::vector<std::int8_t>(q->codes.as<std::int8_t>().begin(), q->codes.as<std::int8_t>().end()), want);
  EXPECT_TRUE(validate(*q).ok());
  EXPECT_EQ(q->block_size(), 7);
}

// Simulates a machine that writes wrong data: after each run, it overwrites the first four bytes of the last block that
// was allocated with a given tag.
class Vandal final : public MemoryResource, public Observer {
 public:
  explicit Vandal(const char* what) : what_(what) {}
  Result<void*> allocate(const Request& request) override {
    auto block = host_memory()->allocate(request);
    if (block.ok() && request.tag == what_) victim_ = static_cast<std::uint8_t*>(*block);
    return block;
  }
  Status deallocate(void* data, std::size_t bytes) override { return host_memory()->deallocate(data, bytes); }
  [[nodiscard]] DeviceId device() const override { return {}; }
  void run_finished(const RunEvent& /*event*/, const Status& /*status*/) override {
    if (victim_ != nullptr) std::memset(victim_, 0xFF, 4);
  }

 private:
  std::string_view what_;
  std::uint8_t* victim_ = nullptr;
};

TEST(QuantizeApi, WhatWasWrittenIsLookedAtWhenAsked) {
  const auto x = weights(64);
  for (const auto& [what, code] :
       {std::pair{"codes", Code::invalid_quantized_value}, std::pair{"scales", Code::invalid_scale}}) {
    const auto vandal = std::make_shared<Vandal>(what);
    const Context context = open({.memory = vandal, .observer = vandal});
    EXPECT_TRUE(quantize(context, view(x, {2, 32})).ok());
    EXPECT_EQ(quantize(context, view(x, {2, 32}), {.validate = true}).code(), code) << what;
  }
  EXPECT_TRUE(quantize(open(), view(x, {2, 32}), {.validate = true}).ok());
}

// The memory that a GPU must have free before quantize() begins.
TEST(QuantizeApi, TheMemoryThatAGpuNeeds) {
  const TernaryQuantize::Problem problem{.rows = 100, .k = 1024, .granularity = Granularity::group(128)};
  const std::size_t codes = 100 * 256, scales = 100 * 8 * 4, x = 100 * 1024 * 4;
  EXPECT_EQ(quantize_device_bytes(problem, false, 77, {}), codes + scales + 77);
  EXPECT_EQ(quantize_device_bytes(problem, true, 77, {}), x + codes + scales + 77);
  EXPECT_EQ(quantize_device_bytes(problem, true, 77, {.device_bytes = 5000}), 5000U);  // in pieces
  const std::vector<float> given(800, 1.0F);
  EXPECT_EQ(quantize_device_bytes(problem, false, 0, {.scale = given}), codes + 2 * scales);
}

TEST(QuantizeApi, ShapesOfCodesAndScales) {
  const auto x = weights(2 * 3 * 130);
  const struct {
    Granularity g;
    Shape scales;
  } cases[] = {{Granularity::tensor(), {1}}, {Granularity::row(), {6, 1}}, {Granularity::group(64), {6, 3}}};
  for (const auto& c : cases) {
    auto q = quantize(open(), view(x, {2, 3, 130}), {.granularity = c.g});
    ASSERT_TRUE(q.ok());
    EXPECT_EQ(q->scales.shape(), c.scales);
    EXPECT_EQ(q->codes.shape(), (Shape{6, 33}));
    EXPECT_EQ(q->rows(), 6);
    EXPECT_EQ(q->k(), 130);
    auto y = dequantize(open(), *q);
    ASSERT_TRUE(y.ok()) << y.error().str();
    EXPECT_EQ(y->shape(), (Shape{2, 3, 130}));
  }
}

TEST(QuantizeApi, QuantizingTheDequantizedGivesTheSameCodes) {
  const auto x = weights(16 * 256);
  auto q = quantize(open(), view(x, {16, 256}), {.scheme = Scheme::absmax, .granularity = Granularity::group(32)});
  auto y = dequantize(open(), *q);
  ASSERT_TRUE(y.ok());
  auto again = quantize(open(), y->view(), {.scheme = Scheme::absmax, .granularity = Granularity::group(32)});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(q->checksum(), again->checksum());
}

TEST(QuantizeApi, NothingIsAnError) {
  for (const Shape& shape : {Shape{0}, Shape{3, 0}, Shape{0, 5}})
    EXPECT_EQ(quantize(open(), view({}, shape)).code(), Code::empty_input);
}

TEST(QuantizeApi, UnsupportedDtypeSaysSo) {
  const std::vector<float> x(8);
  auto q = quantize(open(), {x.data(), DType::i32, {4}});
  EXPECT_EQ(q.code(), Code::unsupported);
  EXPECT_NE(q.error().message.find("bf16, not i32"), std::string::npos) << q.error().message;
  auto ones = quantize(open(), view(x, {4}));
  ASSERT_TRUE(ones.ok());
  EXPECT_EQ(dequantize(open(), *ones, DType::u8).code(), Code::unsupported);
  EXPECT_NE(measure_quality(open(), {x.data(), DType::i32, {4}}, *ones).error().message.find("x is i32"),
            std::string::npos);
}

// The same values in every type give the same codes and scales; what comes back is code * scale in the type asked for.
TEST(QuantizeApi, EveryDtypeThereAndBack) {
  std::vector<float> x = weights(5 * 40);
  for (float& v : x) v = static_cast<float>(static_cast<int>(v * 2048)) / 2048;  // few bits: exact in every type
  const auto want = quantize(open(), view(x, {5, 40}), {.granularity = Granularity::row(), .measure_quality = true});
  ASSERT_TRUE(want.ok());
  for (const DType dtype : {DType::f64, DType::f16, DType::bf16}) {
    std::vector<std::byte> bytes(x.size() * size_of(dtype));
    for (std::size_t i = 0; i < x.size(); ++i) write_element(bytes.data(), dtype, static_cast<std::int64_t>(i), x[i]);
    const auto got =
        quantize(open(), {bytes.data(), dtype, {5, 40}}, {.granularity = Granularity::row(), .measure_quality = true});
    ASSERT_TRUE(got.ok()) << got.error().str();
    EXPECT_EQ(got->checksum(), want->checksum()) << name(dtype);
    EXPECT_EQ(got->quality->sqnr_db, want->quality->sqnr_db) << name(dtype);
    const auto y = dequantize(open(), *got, dtype);
    ASSERT_TRUE(y.ok()) << y.error().str();
    EXPECT_EQ(y->dtype(), dtype);
    for (std::int64_t i = 0; i < 200; ++i) {
      const int code = read_code(Format::i2, got->quantized_data().data() + i / 40 * 10, i % 40);
      std::byte one[8];
      write_element(one, dtype, 0, code * static_cast<double>(got->scale_values()[static_cast<std::size_t>(i / 40)]));
      EXPECT_EQ(read_element(y->data(), dtype, i), read_element(one, dtype, 0)) << name(dtype) << ' ' << i;
    }
  }
}

// Squares of 1e200 are beyond f64: the figures are undefined, not NaN.
TEST(QuantizeApi, QualityOfHugeF64IsUndefined) {
  const std::vector<double> x = {1e200, -1.0, 2.0, 0.25};
  const float scale = 1.0F;
  const auto q = quantize(open(), {x.data(), DType::f64, {4}},
                          {.scheme = Scheme::int2, .scale = {&scale, 1}, .measure_quality = true});
  ASSERT_TRUE(q.ok()) << q.error().str();
  EXPECT_FALSE(q->quality->sqnr_db);
  EXPECT_FALSE(q->quality->cosine);
}

TEST(QuantizeApi, GivenScales) {
  const auto x = weights(4 * 8);
  const std::vector<float> given = {0.5F, 0.25F, 1.0F, 2.0F};
  auto q =
      quantize(open(), view(x, {4, 8}), {.scheme = Scheme::int2, .granularity = Granularity::row(), .scale = given});
  ASSERT_TRUE(q.ok()) << q.error().str();
  EXPECT_EQ(q->format, Format::s2);
  EXPECT_EQ(std::vector<float>(q->scale_values().begin(), q->scale_values().end()), given);
  const std::vector<float> wrong = {1.0F, 1.0F, 1.0F};
  EXPECT_EQ(
      quantize(open(), view(x, {4, 8}), {.scheme = Scheme::int2, .granularity = Granularity::row(), .scale = wrong})
          .code(),
      Code::invalid_argument);
  EXPECT_EQ(quantize(open(), view(x, {4, 8}), {.scale = given}).code(), Code::invalid_argument);
}

// Computes the definition directly, with sums that are exact in any order.
TEST(Quality, IsWhatItsDefinitionSays) {
  const std::vector<float> x = {1.0F, -1.0F, 0.25F, 0.0F, 0.5F, -2.0F};
  auto q = quantize(open(), view(x, {6}), {.scheme = Scheme::absmax, .measure_quality = true});
  ASSERT_TRUE(q.ok() && q->quality);
  // scale 2: codes 0 0 0 0 0 -1, so x' = 0 0 0 0 0 -2
  const double xx = 1 + 1 + 0.0625 + 0.25 + 4, ee = xx - 4;
  EXPECT_DOUBLE_EQ(*q->quality->sqnr_db, 10 * std::log10(xx / ee));
  EXPECT_DOUBLE_EQ(*q->quality->cosine, 4 / (std::sqrt(xx) * 2));
  EXPECT_DOUBLE_EQ(q->quality->zero_fraction, 5.0 / 6);
}

TEST(Quality, IsTheSameForEveryThreadCount) {
  const auto x = weights(300'007);
  std::optional<Quality> first;
  for (const int threads : {1, 2, 5}) {
    auto q = quantize(open({.threads = threads}), view(x, {300'007}), {.measure_quality = true});
    ASSERT_TRUE(q.ok());
    if (!first) first = q->quality;
    EXPECT_EQ(*q->quality->sqnr_db, *first->sqnr_db);
    EXPECT_EQ(*q->quality->cosine, *first->cosine);
    EXPECT_EQ(q->quality->zero_fraction, first->zero_fraction);
  }
}

TEST(Quality, UndefinedAndInfiniteFigures) {
  const std::vector<float> zeros(10), exact = {1.0F, -1.0F, 0.0F, 1.0F};
  auto q = quantize(open(), view(zeros, {10}), {.measure_quality = true});
  ASSERT_TRUE(q.ok());
  EXPECT_FALSE(q->quality->sqnr_db);
  EXPECT_FALSE(q->quality->cosine);
  EXPECT_EQ(q->quality->zero_fraction, 1.0);
  q = quantize(open(), view(exact, {4}), {.scheme = Scheme::absmax, .measure_quality = true});
  ASSERT_TRUE(q.ok());
  EXPECT_EQ(*q->quality->sqnr_db, std::numeric_limits<double>::infinity());
}

TEST(Quality, SaturatedInputIsComparedAsSaturated) {
  std::vector<float> x = {1.0F, std::nanf(""), -1.0F};
  auto q = quantize(open(), view(x, {3}),
                    {.scheme = Scheme::absmax, .non_finite = NonFinite::saturate, .measure_quality = true});
  ASSERT_TRUE(q.ok()) << q.error().str();
  EXPECT_EQ(*q->quality->sqnr_db, std::numeric_limits<double>::infinity());
  EXPECT_EQ(measure_quality(open(), view(x, {3}), *q).code(), Code::non_finite);
}

TEST(Tolerance, AMissedLimitFailsTheCall) {
  const auto x = weights(4096);
  const auto with = [&](const Tolerance& t) { return quantize(open(), view(x, {4096}), {.tolerance = t}); };
  EXPECT_TRUE(with({.min_sqnr_db = 5.0}).ok());
  auto refused = with({.min_sqnr_db = 20.0});
  ASSERT_EQ(refused.code(), Code::quality_below_limit);
  EXPECT_NE(refused.error().message.find("below the limit of 20"), std::string::npos);
  EXPECT_EQ(with({.min_cosine = 0.99}).code(), Code::quality_below_limit);
  EXPECT_EQ(with({.max_zero_fraction = 0.1}).code(), Code::quality_below_limit);
  EXPECT_EQ(with({.min_sqnr_db = std::nan("")}).code(), Code::quality_below_limit);
}

void expect_value(const Status& status, double value, double lowest, double highest) {
  const auto* invalid = status.error().as<InvalidValue>();
  ASSERT_NE(invalid, nullptr) << status.error().str();
  EXPECT_TRUE(invalid->value == value || (std::isnan(invalid->value) && std::isnan(value))) << invalid->value;
  EXPECT_EQ(invalid->lowest, lowest);
  EXPECT_EQ(invalid->highest, highest);
}

// One change away from a valid tensor.
class Validate : public ::testing::Test {
 protected:
  QuantizedTensor q;
  void SetUp() override {
    const auto x = weights(3 * 10);
    auto made = quantize(open(), view(x, {3, 10}), {.granularity = Granularity::row()});
    ASSERT_TRUE(made.ok());
    q = *std::move(made);
  }
};

TEST_F(Validate, Passes) { EXPECT_TRUE(validate(q).ok()); }
TEST_F(Validate, CodeThree) {
  q.codes.as<std::uint8_t>()[4] |= 0b11'00;  // row 1, element 5
  const Status s = validate(q);
  EXPECT_EQ(s.code(), Code::invalid_quantized_value);
  EXPECT_EQ(s.error().index, 15);
  EXPECT_EQ(s.error().message, "codes[1, 5] is 2; absmean has codes from -1 to 1");
  expect_value(s, 2, -1, 1);
  const auto refused = dequantize(open(), q);
  EXPECT_EQ(refused.code(), Code::invalid_quantized_value);
  expect_value(refused.error(), 2, -1, 1);
}
TEST_F(Validate, Padding) {
  q.codes.as<std::uint8_t>()[2] &= 0x0F;
  EXPECT_NE(validate(q).error().message.find("padding of row 0"), std::string::npos);
  expect_value(validate(q), -1, 0, 0);
}
TEST_F(Validate, Scales) {
  for (const float bad : {0.0F, -1.0F, HUGE_VALF, std::nanf("")}) {
    q.scales.as<float>()[2] = bad;
    EXPECT_EQ(validate(q).code(), Code::invalid_scale);
    EXPECT_EQ(validate(q).error().index, 2);
    expect_value(validate(q), static_cast<double>(bad), 0x1p-149, 0x1.FFFFFEp127);
  }
  q.scales.as<float>()[2] = 1e-45F;  // small, but above 0
  EXPECT_TRUE(validate(q).ok());
}
TEST_F(Validate, Shapes) {
  q.shape = {3, 13};
  EXPECT_EQ(validate(q).code(), Code::invalid_argument);
  q.shape = {3, 10};
  q.granularity = Granularity::group(5);
  EXPECT_EQ(validate(q).code(), Code::invalid_argument);
  q.granularity = Granularity::row();
  q.format = Format::s2;
  EXPECT_EQ(validate(q).code(), Code::invalid_argument);
}

TEST(ValidateEmpty, HugeShapesOfNothingEndAtOnce) {
  for (const Shape& shape : {Shape{std::int64_t{1} << 62, 0}, Shape{std::int64_t{1} << 40, std::int64_t{1} << 40, 0}}) {
    QuantizedTensor q;
    q.shape = shape;
    q.codes = *Tensor::allocate(host_memory(), DType::u8, {0});
    q.scales = *Tensor::allocate(host_memory(), DType::f32, {0});
    EXPECT_TRUE(validate(q).ok()) << name(shape);
  }
}

TEST(Memory, ExtraBytesAreFewAndNoneStay) {
  const auto memory = with_statistics(host_memory());
  const Context context = open({.threads = 16, .memory = memory});
  const auto x = weights(1 << 20);
  for (const Granularity g : {Granularity::tensor(), Granularity::row(), Granularity::group(128)}) {
    std::size_t output = 0;
    {
      auto q = quantize(context, view(x, {1024, 1024}), {.granularity = g});
      ASSERT_TRUE(q.ok());
      output = q->codes.bytes() + q->scales.bytes();
    }
    EXPECT_LT(memory->statistics().peak_bytes - output, 1U << 20);
    EXPECT_EQ(memory->statistics().bytes_in_use, 0U);
    EXPECT_TRUE(memory->live().empty());
    memory->reset_peak();
  }
}

TEST(Threading, EightThreadsShareOnePlan) {
  const Context context = open({.threads = 2});
  const auto x = weights(200'000);
  auto plan = TernaryQuantizePlan::select(context, {.rows = 1, .k = 200'000});
  ASSERT_TRUE(plan.ok());
  auto want = quantize(context, view(x, {200'000}));
  std::vector<std::thread> threads;
  std::vector<int> equal(8);
  for (std::size_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int repetition = 0; repetition < 5; ++repetition) {
        std::vector<std::uint8_t> codes(50'000);
        float scale = 0;
        auto workspace =
            Tensor::allocate(host_memory(), DType::u8, {static_cast<std::int64_t>(plan->workspace_bytes())});
        const Status s = plan->run(context.stream(), workspace->as<std::byte>(),
                                   {.x = view(x, {200'000}),
                                    .codes = {codes.data(), DType::u8, {50'000}},
                                    .scales = {&scale, DType::f32, {1}}});
        equal[t] += s.ok() && std::memcmp(codes.data(), want->codes.data(), codes.size()) == 0 ? 1 : 0;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(equal, std::vector<int>(8, 5));
}

}  // namespace
}  // namespace tern
