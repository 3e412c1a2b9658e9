// Precisions as a user asks for them.
#include "tern/precision.h"

#include <cmath>

#include "plan/context_state.h"
#include "tests/support/linear_weights.h"
#include "tests/support/no_gpu.h"

namespace tern::test {
namespace {

QuantizedTensor weights(const Context& context, std::int64_t n, std::int64_t k) {
  Tensor w = *Tensor::allocate(host_memory(), DType::f32, {n, k});
  lab::Random random(3);
  for (float& v : w.as<float>()) v = random.gaussian();
  return *quantize(context, std::as_const(w).view(), {.granularity = Granularity::group(64)});
}
std::vector<float> tokens(std::int64_t count) {
  lab::Random random(4);
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& v : x) v = random.gaussian();
  return x;
}

TEST(Precisions, AreResolvedForTheDeviceAndSayWhy) {
  const Context cpu = open();
  const auto automatic = resolve_precision(cpu);
  ASSERT_TRUE(automatic.ok());
  EXPECT_EQ(automatic->used, DType::f32);
  EXPECT_EQ(automatic->because, "cpu computes in f32");
  EXPECT_FALSE(automatic->fell_back);
  EXPECT_EQ(resolve_precision(cpu, Precision::bf16)->used, DType::bf16);
  EXPECT_EQ(resolve_precision(cpu, Precision::f16, true)->used, DType::f16);
  EXPECT_EQ(*parse_precision("auto"), Precision::automatic);
  EXPECT_EQ(name(Precision::bf16), "bf16");
  EXPECT_FALSE(parse_precision("f8").ok());
}

TEST(Precisions, NarrowerOnesLoseMore) {
  const Context context = open();
  const QuantizedTensor w = weights(context, 70, 300);
  std::vector<float> x = tokens(5 * 300);
  const auto compared = benchmark_precision_modes(context, w, rows(x, 300));
  ASSERT_TRUE(compared.ok()) << message(compared);
  ASSERT_EQ(compared->modes.size(), 3U);
  const auto& [f32, f16, bf16] = std::tie(compared->modes[0], compared->modes[1], compared->modes[2]);
  EXPECT_EQ(f32.choice.used, DType::f32);
  EXPECT_EQ(bf16.choice.used, DType::bf16);
  EXPECT_GT(*f32.sqnr_db, 110);
  EXPECT_GT(*f16.sqnr_db, 60);
  EXPECT_GT(*f32.sqnr_db, *f16.sqnr_db);
  EXPECT_GT(*f16.sqnr_db, *bf16.sqnr_db);
  EXPECT_GT(*bf16.sqnr_db, 40);
  EXPECT_GT(bf16.max_error, f32.max_error);
  EXPECT_GT(*bf16.cosine, 0.9999);
  for (const PrecisionReport& mode : compared->modes) {
    EXPECT_GT(mode.microseconds, 0);
    EXPECT_EQ(mode.kernel.rfind("linear.i2.", 0), 0U);
    EXPECT_GE(mode.microseconds, compared->modes[compared->optimal].microseconds);
  }
  // No narrower type reaches 100 dB.
  EXPECT_EQ(benchmark_precision_modes(context, w, rows(x, 300), 100)->optimal, 0U);
  const auto one = validate_precision_accuracy(context, w, rows(x, 300));
  ASSERT_TRUE(one.ok()) << message(one);
  EXPECT_EQ(one->choice.used, DType::f32);
  EXPECT_EQ(one->max_error, f32.max_error);
}

// A token that f16 cannot hold makes f16 fail, but no other type.
TEST(Precisions, EachModeHasItsOwnError) {
  const Context context = open();
  const QuantizedTensor w = weights(context, 70, 300);
  std::vector<float> x = tokens(5 * 300);
  x[2 * 300 + 7] = 1e5F;
  const auto compared = benchmark_precision_modes(context, w, rows(x, 300), -1000);
  ASSERT_TRUE(compared.ok()) << message(compared);
  ASSERT_EQ(compared->modes.size(), 3U);
  const PrecisionReport& f16 = compared->modes[1];
  EXPECT_EQ(f16.choice.used, DType::f16);
  EXPECT_EQ(f16.refused, "x[2, 7] (element 607) is 100000, beyond f16");
  EXPECT_FALSE(f16.sqnr_db);
  EXPECT_NE(compared->optimal, 1U);
  for (const std::size_t i : {0U, 2U}) {
    EXPECT_EQ(compared->modes[i].refused, "");
    EXPECT_GT(*compared->modes[i].sqnr_db, 40);
    EXPECT_GT(compared->modes[i].microseconds, 0);
  }
  EXPECT_NE(compared->modes[0].max_error, compared->modes[2].max_error);
  const auto alone = validate_precision_accuracy(context, w, rows(x, 300), Precision::f16);
  ASSERT_EQ(alone.code(), Code::non_finite);
  EXPECT_EQ(alone.error().index, 607);
  // A token that is not finite in f32 fails the whole comparison.
  x[5] = NAN;
  EXPECT_EQ(benchmark_precision_modes(context, w, rows(x, 300)).code(), Code::non_finite);
}

TEST(Precisions, RefuseWhatDoesNotFit) {
  const Context context = open();
  const QuantizedTensor w = weights(context, 7, 30);
  std::vector<float> x = tokens(30);
  EXPECT_EQ(validate_precision_accuracy(context, w, rows(x, 15)).code(), Code::invalid_argument);
  EXPECT_EQ(validate_precision_accuracy(context, w, {x.data(), DType::f32, {30}}).code(), Code::invalid_argument);
  EXPECT_EQ(validate_precision_accuracy(context, w, {x.data(), DType::f32, {0, 30}}).code(), Code::empty_input);
  EXPECT_EQ(validate_precision_accuracy(context, w, {x.data(), DType::bf16, {1, 30}}).code(), Code::invalid_argument);
  x[7] = INFINITY;
  EXPECT_EQ(validate_precision_accuracy(context, w, rows(x, 30)).code(), Code::non_finite);
}

// resolve_precision() only reads the description of a GPU, so a made-up one will do.
TEST(Precisions, ATuringGpuHasNoBf16) {
  const Context context = detail::ContextState::cpu_beside(1);
  auto& device = const_cast<Device&>(context.device());
  device.id = {DeviceKind::cuda, 0};
  device.capabilities = Capabilities::of(Capability::sm_75);
  const auto automatic = resolve_precision(context);
  ASSERT_TRUE(automatic.ok()) << message(automatic);
  EXPECT_EQ(automatic->used, DType::f16);
  EXPECT_EQ(automatic->because, "cuda:0 multiplies matrices of f16, not of bf16");
  const auto fallen = resolve_precision(context, Precision::bf16);
  ASSERT_TRUE(fallen.ok()) << message(fallen);
  EXPECT_EQ(fallen->used, DType::f32);
  EXPECT_TRUE(fallen->fell_back);
  EXPECT_EQ(fallen->because, "cuda:0 has no bf16 (compute capability 8.0)");
  const auto refused = resolve_precision(context, Precision::bf16, true);
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_NE(message(refused).find("ask for f16, f32 or auto"), std::string::npos) << message(refused);
  device.capabilities = Capabilities::of(Capability::sm_75, Capability::sm_80);
  EXPECT_EQ(resolve_precision(context)->used, DType::bf16);
}

// A layer takes the type of the precision for its tokens and results, and says which and why.
TEST(Precisions, OfALayer) {
  const Context context = open();
  const QuantizedTensor w = weights(context, 16, 100);
  const auto packed = PackedWeights::pack(context, w);
  ASSERT_TRUE(packed.ok()) << message(packed);
  const auto without = BitLinear::make(context, *packed);
  ASSERT_TRUE(without.ok()) << message(without);
  EXPECT_FALSE(without->precision().has_value());
  for (const auto& [asked, used] : {std::pair{Precision::automatic, DType::f32},
                                    {Precision::f32, DType::f32},
                                    {Precision::f16, DType::f16},
                                    {Precision::bf16, DType::bf16}}) {
    const auto layer = BitLinear::make(context, *packed, {.precision = asked});
    ASSERT_TRUE(layer.ok()) << message(layer);
    EXPECT_EQ(layer->plan().problem().x_dtype, used);
    EXPECT_EQ(layer->plan().problem().matrices[0].y_dtype, used);
    ASSERT_TRUE(layer->precision().has_value());
    EXPECT_EQ(layer->precision()->asked, asked);
    EXPECT_EQ(layer->precision()->used, used);
    EXPECT_EQ(layer->precision()->because, asked == Precision::automatic ? "cpu computes in f32" : "asked for");
  }
  EXPECT_TRUE(BitLinear::make(context, *packed, {.x_dtype = DType::f16, .precision = Precision::f16}).ok());
  const auto both = BitLinear::make(context, *packed, {.y_dtype = DType::bf16, .precision = Precision::automatic});
  ASSERT_EQ(both.code(), Code::invalid_argument);
  EXPECT_EQ(both.error().message, "y_dtype is bf16, and precision auto gives f32; leave one of them out");
}

// A GPU with bf16 chooses it by default; its results are close to the f64 reference.
TEST(Precisions, OnAGpu) {
  auto gpu = Context::open(DeviceId{DeviceKind::cuda, 0});
  TERN_SKIP_WITHOUT_GPU(gpu);
  const Context cpu = open();
  const QuantizedTensor w = weights(cpu, 320, 1000);
  std::vector<float> x = tokens(9 * 1000);
  const auto automatic = resolve_precision(*gpu);
  ASSERT_TRUE(automatic.ok());
  EXPECT_EQ(automatic->used, gpu->device().capabilities.has(Capability::sm_80) ? DType::bf16 : DType::f16);
  const auto compared = benchmark_precision_modes(*gpu, w, rows(x, 1000));
  ASSERT_TRUE(compared.ok()) << message(compared);
  EXPECT_GT(*compared->modes[0].sqnr_db, 110);
  EXPECT_GT(*compared->modes[1].sqnr_db, 60);
  EXPECT_GT(*compared->modes[2].sqnr_db, 40);
}

}  // namespace
}  // namespace tern::test
