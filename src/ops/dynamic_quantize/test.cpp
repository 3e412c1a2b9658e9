// Every dynamic_quantize kernel against choose_qparams and affine_quantize, one after the other: bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "lab/qparams_problems.h"
#include "ops/dynamic_quantize/dynamic_quantize.h"
#include "tests/support/qparams_golden.h"
#include "tests/support/quantize_runner.h"

namespace tern {
namespace {

using lab::QparamsInput;
using lab::Random;
using test::Guarded;
using test::NamedKernel;
using Problem = DynamicQuantize::Problem;

std::vector<NamedKernel> all_kernels(Format format) {
  auto kernels = test::runnable_kernels("dynamic_quantize", format);
  kernels.push_back({"reference", test::reference_kernel("dynamic_quantize", format)});
  return kernels;
}

struct Quantized {
  Status status;
  std::vector<std::uint8_t> codes;
  std::vector<std::byte> scales;
  std::vector<std::int32_t> zero_points;
  [[nodiscard]] bool same(const Quantized& other) const {
    return codes == other.codes && scales == other.scales && zero_points == other.zero_points;
  }
};

// Poisoned outputs that end at guard pages, with their views.
struct Outputs {
  explicit Outputs(const Problem& p)
      : rows(affine::rows_of(p.shape)),
        bytes(row_bytes(p.format, affine::last_of(p.shape))),
        count(*affine_scale_count(p.shape, p.granularity)),
        codes(static_cast<std::size_t>(rows * bytes)),
        scales(static_cast<std::size_t>(count) * size_of(p.scale_dtype)),
        zero_points(p.zero_points ? static_cast<std::size_t>(count) : 0U),
        codes_view(codes.data(), code_dtype(p.format), {rows, bytes}),
        scales_view(scales.data(), p.scale_dtype, {count}),
        zero_points_view(zero_points.data(), DType::i32, {static_cast<std::int64_t>(zero_points.size())}) {}
  Quantized taken(Status status) {
    return {std::move(status), std::vector(codes.data(), codes.data() + codes.size()),
            std::vector(scales.data(), scales.data() + scales.size()),
            std::vector(zero_points.data(), zero_points.data() + zero_points.size())};
  }

  std::int64_t rows, bytes, count;
  Guarded<std::uint8_t> codes;
  Guarded<std::byte> scales;
  Guarded<std::int32_t> zero_points;
  TensorView codes_view, scales_view, zero_points_view;
};

class Input {
 public:
  Input(const Problem& p, const std::vector<std::byte>& from, const Shape* strides = nullptr) : x_(from.size()) {
    std::copy(from.begin(), from.end(), x_.data());
    view_ = {x_.data(), p.dtype, p.shape, strides == nullptr ? dense_strides(p.shape) : *strides, {}};
  }
  [[nodiscard]] const ConstTensorView& view() const { return view_; }

 private:
  Guarded<std::byte> x_;
  ConstTensorView view_;
};

Quantized run(const KernelEntry& entry, const Problem& p, const Input& x, int threads = 1) {
  Outputs out(p);
  const auto facts = OpTraits<DynamicQuantize>::facts(p);
  if (!facts.ok()) return out.taken(facts.error());
  const auto params = OpTraits<DynamicQuantize>::bind(
      p, {.x = x.view(), .codes = out.codes_view, .scales = out.scales_view, .zero_points = out.zero_points_view});
  if (!params.ok()) return out.taken(params.error());
  return out.taken(test::run_entry(entry, p, *params, threads));
}

// Runs the references of the two ops one after the other.
Quantized one_after_the_other(const Problem& p, const Input& x) {
  Outputs out(p);
  const auto choose = dynamic_quantize::choosing(p);
  const auto chosen = OpTraits<ChooseQparams>::bind(
      choose, {.x = x.view(), .scales = out.scales_view, .zero_points = out.zero_points_view});
  if (!chosen.ok()) return out.taken(chosen.error());
  Status status = test::run_entry(test::reference_kernel("choose_qparams", p.format), choose, *chosen, 1);
  if (!status.ok()) return out.taken(std::move(status));
  const auto quantize = affine::problem_of<AffineQuantize>(p);
  const auto params = OpTraits<AffineQuantize>::bind(
      quantize,
      {.x = x.view(), .scales = out.scales_view, .zero_points = out.zero_points_view, .codes = out.codes_view});
  if (!params.ok()) return out.taken(params.error());  // must not happen, not even with `reciprocal`
  return out.taken(test::run_entry(test::reference_kernel("affine_quantize", p.format), quantize, *params, 1));
}

TEST(DynamicQuantize, ChoosesThenQuantizes) {
  Random random(1);
  for (const Format format : lab::kAffineFormats) {
    const auto kernels = all_kernels(format);
    for (const DType dtype : lab::kFloatTypes)
      for (int repetition = 0; repetition < 40; ++repetition) {
        const QparamsInput in = lab::random_qparams(random, dtype, format);
        const Problem p = lab::dynamic_of(in.problem, static_cast<AffineMath>(random.below(3)));
        const Input x(p, in.x);
        const Quantized want = one_after_the_other(p, x);
        ASSERT_TRUE(want.status.ok()) << want.status.error().str() << ' ' << lab::describe_choice(p);
        for (const NamedKernel& kernel : kernels) {
          const Quantized got = run(kernel.entry, p, x, 1 + static_cast<int>(random.below(3)));
          ASSERT_TRUE(got.status.ok()) << got.status.error().str();
          ASSERT_TRUE(got.same(want)) << kernel.name << ' ' << lab::describe_choice(p) << ' ' << name(p.math);
        }
      }
  }
}

// Tokens and groups of lengths below and above the limit of one pass, with short last groups, on several threads.
TEST(DynamicQuantize, EveryLengthOfARange) {
  Random random(2);
  std::vector<std::byte> x(4 * 100'000);
  for (std::int64_t i = 0; i < 100'000; ++i)
    write_element(x.data(), DType::f32, i, static_cast<double>(random.gaussian()) + 0.25);
  for (const Format format : {Format::u8, Format::s4})
    for (const std::int64_t len : {1, 3, 127, 128, 2047, 2048, 2049, 5000, 32768, 32769, 50'000})
      for (const bool token : {true, false}) {
        Problem p;
        p.shape = token ? Shape{100'000 / len, len} : Shape{2, 50'000};
        p.granularity = token ? AffineGranularity::token() : AffineGranularity::group(len);
        p.format = format;
        p.zero_points = true;
        p.method = QparamsMethod::minmax;
        const Input in(p, {x.begin(), x.begin() + 4 * *element_count(p.shape)});
        const Quantized want = one_after_the_other(p, in);
        for (const NamedKernel& kernel : test::runnable_kernels("dynamic_quantize", format))
          for (const int threads : {1, 3})
            ASSERT_TRUE(run(kernel.entry, p, in, threads).same(want)) << kernel.name << ' ' << lab::describe_choice(p);
      }
}

TEST(DynamicQuantize, AnyStrides) {
  Random random(3);
  for (const DType dtype : lab::kFloatTypes)
    for (const Format format : {Format::s8, Format::u4})
      for (const Shape& strides : {Shape{1, 50, 10}, Shape{1000, 100, 2}, Shape{0, 70, 1}, Shape{600, 1, 90}})
        for (const auto& granularity : {AffineGranularity::token(), AffineGranularity::group(7),
                                        AffineGranularity::group(10), AffineGranularity::channel(1)}) {
          Problem p;
          p.shape = {3, 5, 50};
          p.granularity = granularity;
          p.dtype = dtype;
          p.format = format;
          p.zero_points = true;
          p.method = QparamsMethod::minmax;
          std::vector<std::byte> x(6000 * size_of(dtype));
          for (std::int64_t i = 0; i < 6000; ++i)
            write_element(x.data(), dtype, i, 3.0 * static_cast<double>(random.gaussian()));
          const Input in(p, x, &strides);
          const Quantized want = one_after_the_other(p, in);
          ASSERT_TRUE(want.status.ok()) << want.status.error().str();
          for (const NamedKernel& kernel : all_kernels(format))
            ASSERT_TRUE(run(kernel.entry, p, in, 2).same(want))
                << kernel.name << ' ' << lab::describe_choice(p) << ' ' << name(strides);
        }
}

TEST(DynamicQuantize, NonFiniteIsNamedOrSaturated) {
  for (const DType dtype : lab::kFloatTypes)
    for (const auto& granularity : {AffineGranularity::group(32), AffineGranularity::token(),
                                    AffineGranularity::channel(1), AffineGranularity::tensor()}) {
      Problem p;
      p.shape = {4, 3000};
      p.granularity = granularity;
      p.dtype = dtype;
      p.scale_dtype = dtype == DType::f64 ? DType::f64 : DType::f32;  // f32 cannot hold the scale of the largest f64
      std::vector<std::byte> x(12'000 * size_of(dtype));
      for (std::int64_t i = 0; i < 12'000; ++i) write_element(x.data(), dtype, i, static_cast<double>(i % 9) - 3);
      write_element(x.data(), dtype, 5139, -std::numeric_limits<double>::quiet_NaN());
      write_element(x.data(), dtype, 8200, -HUGE_VAL);
      const Input in(p, x);
      for (const NamedKernel& kernel : all_kernels(Format::s8)) {
        p.non_finite = NonFinite::reject;
        const Quantized refused = run(kernel.entry, p, in);
        ASSERT_EQ(refused.status.code(), Code::non_finite) << kernel.name;
        EXPECT_EQ(refused.status.error().index, 5139) << kernel.name;
        EXPECT_EQ(refused.status.error().where, "dynamic_quantize") << kernel.name;
        p.non_finite = NonFinite::saturate;
        const Quantized got = run(kernel.entry, p, in);
        EXPECT_TRUE(got.same(one_after_the_other(p, in))) << kernel.name << ' ' << lab::describe_choice(p);
        EXPECT_EQ(got.codes[5139], 0) << kernel.name;
        EXPECT_LE(static_cast<std::int8_t>(got.codes[8200]), -127) << kernel.name;  // -127.5, or slightly above
      }
    }
}

// All rows together are large enough for streaming stores; half of them are not.
TEST(DynamicQuantize, CodesThatBypassTheCache) {
  constexpr std::int64_t kRows = 8, kK = 4'200'001;
  Problem p;
  p.shape = {kRows, kK};
  p.granularity = AffineGranularity::group(100);
  p.dtype = DType::bf16;
  std::vector<std::byte> x(2 * kRows * kK);
  for (std::int64_t i = 0; i < kRows * kK; ++i)
    store_element(x.data(), i, static_cast<std::uint16_t>((i * 40'503 & 0x83FF) | 0x3F00));
  const auto kernel = test::runnable_kernels("dynamic_quantize", Format::s8).front();
  const Quantized whole = run(kernel.entry, p, Input(p, x), 2);
  p.shape = {kRows / 2, kK};
  for (std::int64_t half = 0; half < 2; ++half) {
    const auto begin = x.begin() + half * kRows * kK;
    const Quantized alone = run(kernel.entry, p, Input(p, {begin, begin + kRows * kK}));
    const auto size = static_cast<std::ptrdiff_t>(alone.codes.size());
    EXPECT_TRUE(std::equal(alone.codes.begin(), alone.codes.end(), whole.codes.begin() + half * size));
    EXPECT_TRUE(std::equal(alone.scales.begin(), alone.scales.end(),
                           whole.scales.begin() + half * static_cast<std::ptrdiff_t>(alone.scales.size())));
  }
}

TEST(DynamicQuantize, WhatItRefuses) {
  Problem p{.shape = {4, 8}};
  EXPECT_TRUE(OpTraits<DynamicQuantize>::facts(p).ok());
  p.method = QparamsMethod::mse;
  const auto often = OpTraits<DynamicQuantize>::facts(p);
  ASSERT_FALSE(often.ok());
  EXPECT_NE(often.error().message.find("mse looks at a range many times"), std::string::npos);
  p.method = QparamsMethod::minmax;
  EXPECT_EQ(OpTraits<DynamicQuantize>::facts(p).code(), Code::invalid_argument);
  p = {.shape = {8}};
  Guarded<float> x(8), scales(1);
  Guarded<std::int8_t> codes(8);
  const auto aliased = OpTraits<DynamicQuantize>::bind(p, {.x = {x.data(), DType::f32, {8}},
                                                           .codes = {static_cast<void*>(scales.data()), DType::i8, {8}},
                                                           .scales = {scales.data(), DType::f32, {1}},
                                                           .zero_points = {}});
  EXPECT_FALSE(aliased.ok());
  EXPECT_FALSE(OpTraits<DynamicQuantize>::bind(p, {.x = {x.data(), DType::f32, {8}},
                                                   .codes = {codes.data(), DType::i8, {7}},
                                                   .scales = {scales.data(), DType::f32, {1}},
                                                   .zero_points = {}})
                   .ok());
}

TEST(DynamicQuantize, WhatItPromises) {
  const auto context = Context::open();
  const auto plan =
      DynamicQuantizePlan::select(*context, {.shape = {4, 64}, .dtype = DType::f16, .format = Format::s4});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->id().op, "dynamic_quantize");
  EXPECT_EQ(plan->id().element, "f16");
  EXPECT_EQ(plan->id().aux_element, "f32");
  EXPECT_EQ(plan->id().layout, "s4");
  EXPECT_EQ(plan->guarantee().math, "f32");
  EXPECT_EQ(plan->guarantee().accumulator, "none");
  EXPECT_TRUE(plan->guarantee().bit_stable);
  const auto wide = DynamicQuantizePlan::select(*context, {.shape = {4, 64}, .math = AffineMath::torch_cuda});
  ASSERT_TRUE(wide.ok());
  EXPECT_EQ(wide->guarantee().math, "f64");
}

// PyTorch's quantize_per_tensor_dynamic uses another rule: it computes the scale in f64 from max - min in f64, never
// below 6.1e-5, and the zero point from whichever end of the range loses less. In these cases our scales are at most
// two ulps from PyTorch's, and the codes are the same.
TEST(DynamicQuantize, BesidePyTorchsDynamic) {
  if (!std::filesystem::exists(TERN_TESTS_DIR)) GTEST_SKIP() << "the source tree is not here";
  int cases = 0, below = 0;
  for (const test::QparamsGolden& golden : test::read_qparams_golden(TERN_TESTS_DIR)) {
    if (golden.op != "dynamic") continue;
    ++cases;
    Problem p;
    p.shape = golden.shape;
    p.granularity = AffineGranularity::tensor();
    p.format = golden.format;
    p.zero_points = true;
    p.method = QparamsMethod::minmax;
    p.math = AffineMath::reciprocal;
    const Quantized got =
        run(test::runnable_kernels("dynamic_quantize", p.format).front().entry, p, Input(p, golden.x));
    ASSERT_TRUE(got.status.ok()) << got.status.error().str();
    const double scale = read_element(got.scales.data(), DType::f32, 0);
    if (scale < 6.1e-5) {
      ++below;
      EXPECT_NEAR(golden.scales[0], 6.1e-5, 1e-10);
      continue;
    }
    EXPECT_NEAR(scale, golden.scales[0], golden.scales[0] * 0x1p-22);
    EXPECT_NEAR(got.zero_points[0], golden.zero_points[0], 1);
    EXPECT_EQ(got.codes, golden.codes);
  }
  EXPECT_EQ(cases, 8);
  EXPECT_EQ(below, 2);
}

}  // namespace
}  // namespace tern
