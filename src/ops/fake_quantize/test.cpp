// Every fake_quantize kernel, and the loops at every width, against the reference: bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "lab/fake_problems.h"
#include "ops/affine_dequantize/affine_dequantize.h"
#include "ops/affine_quantize/affine_quantize.h"
#include "ops/fake_quantize/fake_quantize.h"
#include "ops/fake_quantize/generic.h"
#include "tests/support/fake_golden.h"
#include "tests/support/quantize_runner.h"

namespace tern {
namespace {

using lab::FakeInput;
using lab::Random;
using test::Guarded;
using test::NamedKernel;
using Problem = FakeQuantize::Problem;

// The reference is the last entry.
std::vector<NamedKernel> all_kernels(Format format) {
  auto kernels = test::kernels_and_loops<fake_quantize::Loops>("fake_quantize", format);
  kernels.push_back({"reference", test::reference_kernel("fake_quantize", format)});
  return kernels;
}
KernelEntry reference(Format format) { return test::reference_kernel("fake_quantize", format); }

struct Values {
  Status status;
  std::vector<std::byte> y, mask;  // all of their memory, including gaps between elements

  friend bool operator==(const Values& a, const Values& b) {
    return test::same_bytes(a.y, b.y) && test::same_bytes(a.mask, b.mask);
  }
};

struct Layout {
  std::optional<Shape> x_strides, y_strides;  // dense if absent
  std::int64_t mask_gap = 0;                  // bytes between rows of the mask
  std::size_t skip_bytes = 0;                 // every buffer begins this far past an aligned address
};

std::size_t reach(const Shape& shape, const Shape& strides) {
  std::int64_t last = 1;
  for (int i = 0; i < shape.rank(); ++i) last += (shape[i] - 1) * strides[i];
  return static_cast<std::size_t>(affine::is_empty(shape) ? 0 : last);
}

Values run(const KernelEntry& entry, const FakeInput& in, int threads = 1, const Layout& layout = {}) {
  const Problem& p = in.problem;
  Values out;
  if (auto facts = OpTraits<FakeQuantize>::facts(p); !facts.ok()) {
    out.status = std::move(facts).error();
    return out;
  }
  const Shape x_strides = layout.x_strides.value_or(dense_strides(p.shape));
  const Shape y_strides = layout.y_strides.value_or(dense_strides(p.shape));
  const std::int64_t rows = affine::rows_of(p.shape), k = affine::last_of(p.shape);
  const std::size_t skip = layout.skip_bytes;
  Guarded<std::byte> x(in.x.size() + skip), scales(in.scales.size() + skip);
  Guarded<std::byte> zero_points(4 * in.zero_points.size() + skip);
  Guarded<std::byte> y(reach(p.shape, y_strides) * size_of(p.dtype) + skip);
  Guarded<std::byte> mask(
      static_cast<std::size_t>(p.mask && rows > 0 ? rows * (k + layout.mask_gap) - layout.mask_gap : 0) + skip);
  // The skipped bytes come first, so each buffer still ends at its guard page.
  if (!in.x.empty()) std::memcpy(x.data() + skip, in.x.data(), in.x.size());
  std::memcpy(scales.data() + skip, in.scales.data(), in.scales.size());
  if (!in.zero_points.empty()) std::memcpy(zero_points.data() + skip, in.zero_points.data(), 4 * in.zero_points.size());
  const auto count = static_cast<std::int64_t>(in.scales.size() / size_of(p.scale_dtype));
  const FakeQuantize::Args args{
      .x = {x.data() + skip, p.dtype, p.shape, x_strides, {}},
      .scales = {scales.data() + skip, p.scale_dtype, {count}},
      .zero_points = {zero_points.data() + skip, DType::i32, {static_cast<std::int64_t>(in.zero_points.size())}},
      .y = {y.data() + skip, p.dtype, p.shape, y_strides, {}},
      .mask = {mask.data() + skip, DType::u8, {rows, k}, {k + layout.mask_gap, 1}, {}}};
  auto params = OpTraits<FakeQuantize>::bind(p, args);
  if (!params.ok()) {
    out.status = std::move(params).error();
    return out;
  }
  if (!OpTraits<FakeQuantize>::empty(*params)) out.status = test::run_entry(entry, p, *params, threads);
  out.y.assign(y.data() + skip, y.data() + y.size());
  out.mask.assign(mask.data() + skip, mask.data() + mask.size());
  return out;
}

// One line of f32 with one scale.
FakeInput line(const std::vector<float>& x, float scale, std::optional<int> zero_point = {}) {
  FakeInput in;
  in.problem = {.shape = {static_cast<std::int64_t>(x.size())}, .zero_points = zero_point.has_value(), .mask = true};
  in.x.resize(4 * x.size());
  if (!x.empty()) std::memcpy(in.x.data(), x.data(), in.x.size());
  in.scales.resize(4);
  std::memcpy(in.scales.data(), &scale, 4);
  if (zero_point) in.zero_points = {*zero_point};
  return in;
}
std::vector<float> floats(const Values& v) {
  std::vector<float> y(v.y.size() / 4);
  std::memcpy(y.data(), v.y.data(), v.y.size());
  return y;
}
std::vector<int> mask_of(const Values& v) {
  std::vector<int> mask;
  for (const std::byte b : v.mask) mask.push_back(static_cast<int>(b));
  return mask;
}

// y computed by the references of affine_quantize and affine_dequantize, one after the other.
std::vector<std::byte> in_two_steps(FakeInput& in) {
  const Problem& p = in.problem;
  const std::int64_t rows = affine::rows_of(p.shape), k = affine::last_of(p.shape);
  const auto count = static_cast<std::int64_t>(in.scales.size() / size_of(p.scale_dtype));
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows * row_bytes(p.format, k)));
  std::vector<std::byte> y(in.x.size());
  const ConstTensorView scales{in.scales.data(), p.scale_dtype, {count}};
  const ConstTensorView zero_points{in.zero_points.data(), DType::i32, {p.zero_points ? count : 0}};
  const TensorView bytes{codes.data(), code_dtype(p.format), {rows, row_bytes(p.format, k)}};
  const auto forth = affine::problem_of<AffineQuantize>(p);
  const AffineDequantize::Problem back{.shape = p.shape,
                                       .granularity = p.granularity,
                                       .dtype = p.dtype,
                                       .format = p.format,
                                       .scale_dtype = p.scale_dtype,
                                       .zero_points = p.zero_points};
  const auto there = OpTraits<AffineQuantize>::bind(
      forth, {.x = {in.x.data(), p.dtype, p.shape}, .scales = scales, .zero_points = zero_points, .codes = bytes});
  EXPECT_TRUE(there.ok());
  EXPECT_TRUE(test::run_entry(test::reference_kernel("affine_quantize", p.format), forth, *there, 1).ok());
  const auto here = OpTraits<AffineDequantize>::bind(
      back, {.codes = bytes, .scales = scales, .zero_points = zero_points, .y = {y.data(), p.dtype, p.shape}});
  EXPECT_TRUE(here.ok());
  EXPECT_TRUE(test::run_entry(test::reference_kernel("affine_dequantize", p.format), back, *here, 1).ok());
  return y;
}

TEST(FakeQuantize, EveryFormatTypeAndGranularityInOneStepOrTwo) {
  Random random(1);
  for (const Format format : lab::kAffineFormats) {
    const auto kernels = all_kernels(format);
    for (const DType dtype : lab::kFloatTypes)
      for (int repetition = 0; repetition < 30; ++repetition) {
        FakeInput in = lab::random_fake(random, dtype, format);
        const Values want = run(reference(format), in);
        ASSERT_TRUE(want.status.ok()) << want.status.error().str() << ' ' << lab::describe_fake(in.problem);
        ASSERT_TRUE(test::same_bytes(want.y, in_two_steps(in))) << lab::describe_fake(in.problem);
        const Layout layout{.mask_gap = random.below(3), .skip_bytes = static_cast<std::size_t>(random.below(2))};
        const Values apart = run(reference(format), in, 1, layout);
        ASSERT_TRUE(test::same_bytes(apart.y, want.y));
        for (const NamedKernel& kernel : kernels)
          ASSERT_TRUE(run(kernel.entry, in, 1 + static_cast<int>(random.below(3)), layout) == apart)
              << kernel.name << ' ' << lab::describe_fake(in.problem);
      }
  }
}

// All 65,536 values of f16 and of bf16, non-finite ones saturated.
TEST(FakeQuantize, EveryHalfThereIs) {
  FakeInput in;
  in.x.resize(2 * 65536);
  for (std::uint32_t h = 0; h < 65536; ++h) store_element(in.x.data(), h, static_cast<std::uint16_t>(h));
  in.scales.resize(4);
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const Format format : {Format::s8, Format::u8, Format::s4}) {
      const CodeRange q = code_range(format);
      const auto kernels = all_kernels(format);
      for (const float scale : {1.0F, 0.0173F, 3e-7F, 511.7F})
        for (const int zero_point : {q.min, q.max, ((q.min + q.max) / 2) | 1})
          for (const AffineMath math : {AffineMath::division, AffineMath::reciprocal}) {
            in.problem = {.shape = {65536},
                          .dtype = dtype,
                          .format = format,
                          .zero_points = true,
                          .math = math,
                          .non_finite = NonFinite::saturate,
                          .mask = true,
                          .strict = scale == 1.0F};
            std::memcpy(in.scales.data(), &scale, 4);
            in.zero_points = {zero_point};
            const Values want = run(reference(format), in);
            ASSERT_TRUE(want.status.ok()) << want.status.error().str();
            ASSERT_TRUE(test::same_bytes(want.y, in_two_steps(in)));
            for (const NamedKernel& kernel : kernels)
              ASSERT_TRUE(run(kernel.entry, in) == want)
                  << kernel.name << ' ' << lab::describe_fake(in.problem) << ' ' << scale << ' ' << zero_point;
          }
    }
}

TEST(FakeQuantize, TiesZerosEndsAndTheirMasks) {
  const float top = std::numeric_limits<float>::max();
  const std::vector<float> x = {0.5F, 1.5F, -0.5F, -0.0F, top, -top, 126.5F, 127.5F, 127.4F, -128.5F, -128.6F, 128.0F};
  const std::vector<float> even = {0, 2, 0, 0, 127, -128, 126, 127, 127, -128, -128, 127};
  const std::vector<int> inclusive = {1, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0},
                         strict = {1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0};
  // The odd zero point is added after rounding: 0.5 gives code 3 and the value 0, not rne(3.5) = 4.
  const std::vector<float> odd = {0, 2, 0, 0, 124, -131, 124, 124, 124, -128, -129, 124};
  const std::vector<int> odd_mask = {1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0};
  for (const NamedKernel& kernel : all_kernels(Format::s8)) {
    FakeInput in = line(x, 1.0F);
    Values got = run(kernel.entry, in);
    EXPECT_EQ(floats(got), even) << kernel.name;
    EXPECT_EQ(mask_of(got), inclusive) << kernel.name;
    for (const float y : floats(got)) EXPECT_FALSE(y == 0 && std::signbit(y)) << kernel.name;  // never -0
    in.problem.strict = true;
    EXPECT_EQ(mask_of(run(kernel.entry, in)), strict) << kernel.name;
    got = run(kernel.entry, line(x, 1.0F, 3));
    EXPECT_EQ(floats(got), odd) << kernel.name;
    EXPECT_EQ(mask_of(got), odd_mask) << kernel.name;
    // A quotient that overflows is outside the range.
    got = run(kernel.entry, line({1e30F, -1e30F}, 1e-30F));
    EXPECT_EQ(mask_of(got), (std::vector<int>{0, 0})) << kernel.name;
  }
}

TEST(FakeQuantize, AnyStridesOfXAndY) {
  Random random(4);
  for (const DType dtype : lab::kFloatTypes)
    for (const Shape& x_strides : {Shape{1, 50, 10}, Shape{1000, 100, 2}, Shape{0, 70, 1}, Shape{250, 50, 1}})
      for (const Shape& y_strides : {Shape{1, 150, 3}, Shape{1000, 100, 2}, Shape{5000, 1, 90}, Shape{250, 50, 1}})
        for (const auto& granularity : {AffineGranularity::tensor(), AffineGranularity::group(7, 1),
                                        AffineGranularity::channel(1), AffineGranularity::group(16)}) {
          FakeInput in;
          Problem& p = in.problem;
          p = {.shape = {3, 5, 50}, .granularity = granularity, .dtype = dtype, .mask = true};
          const std::int64_t count = *affine_scale_count(p.shape, p.granularity);
          in.scales.resize(static_cast<std::size_t>(4 * count));
          for (std::int64_t i = 0; i < count; ++i)
            write_element(in.scales.data(), DType::f32, i, 0.02 + 0.001 * static_cast<double>(i));
          in.x.resize(reach(p.shape, x_strides) * size_of(dtype));
          for (std::int64_t i = 0; i < static_cast<std::int64_t>(in.x.size() / size_of(dtype)); ++i)
            write_element(in.x.data(), dtype, i, 3.0 * static_cast<double>(random.gaussian()));
          const Layout layout{.x_strides = x_strides, .y_strides = y_strides, .mask_gap = 1};
          const Values want = run(reference(Format::s8), in, 1, layout);
          ASSERT_TRUE(want.status.ok()) << want.status.error().str();
          for (const NamedKernel& kernel : all_kernels(Format::s8))
            ASSERT_TRUE(run(kernel.entry, in, 2, layout) == want)
                << kernel.name << ' ' << lab::describe_fake(p) << ' ' << name(x_strides) << ' ' << name(y_strides);
        }
}

TEST(FakeQuantize, NonFiniteIsNamedOrSaturated) {
  for (const DType dtype : lab::kFloatTypes) {
    FakeInput in;
    in.problem = {.shape = {4, 70}, .granularity = AffineGranularity::group(32), .dtype = dtype, .mask = true};
    in.x.resize(280 * size_of(dtype));
    for (std::int64_t i = 0; i < 280; ++i) write_element(in.x.data(), dtype, i, static_cast<double>(i % 9));
    write_element(in.x.data(), dtype, 139, std::numeric_limits<double>::quiet_NaN());
    write_element(in.x.data(), dtype, 200, -HUGE_VAL);
    in.scales.resize(12 * 4);
    for (int i = 0; i < 12; ++i) write_element(in.scales.data(), DType::f32, i, 0.5);
    for (const NamedKernel& kernel : all_kernels(Format::s8)) {
      in.problem.non_finite = NonFinite::reject;
      const Values refused = run(kernel.entry, in);
      ASSERT_EQ(refused.status.code(), Code::non_finite) << kernel.name;
      EXPECT_EQ(refused.status.error().index, 139) << kernel.name;
      in.problem.non_finite = NonFinite::saturate;
      const Values got = run(kernel.entry, in);
      ASSERT_TRUE(got.status.ok()) << kernel.name;
      EXPECT_EQ(read_element(got.y.data(), dtype, 139), 0) << kernel.name;
      EXPECT_EQ(read_element(got.y.data(), dtype, 200), -64) << kernel.name;
      EXPECT_EQ(mask_of(got)[139], 1) << kernel.name;
      EXPECT_EQ(mask_of(got)[200], 0) << kernel.name;
    }
  }
}

// Outputs large enough for streaming stores, with unaligned rows, on several threads.
TEST(FakeQuantize, LargeOutputs) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    FakeInput in;
    const auto k = static_cast<std::int64_t>((34U << 20) / 3 / size_of(dtype)) | 1;
    in.problem = {.shape = {3, k}, .granularity = AffineGranularity::token(), .dtype = dtype, .mask = true};
    in.x.resize(static_cast<std::size_t>(3 * k) * size_of(dtype));
    for (std::int64_t i = 0; i < 3 * k; ++i)
      write_element(in.x.data(), dtype, i, static_cast<double>(i * 40'503 % 4001 - 2000) / 1000);
    in.scales.resize(12);
    for (int i = 0; i < 3; ++i) write_element(in.scales.data(), DType::f32, i, 0.01 + 0.003 * i);
    const Values want = run(reference(Format::s8), in);
    for (const NamedKernel& kernel : test::runnable_kernels("fake_quantize", Format::s8))
      ASSERT_TRUE(run(kernel.entry, in, 2) == want) << kernel.name << ' ' << name(dtype);
  }
}

TEST(FakeQuantize, RefusesByName) {
  const auto refusal = [](const FakeInput& in, const Layout& layout = {}) {
    const Values out = run(reference(Format::s8), in, 1, layout);
    return out.status.ok() ? std::string("accepted") : out.status.error().str();
  };
  const auto contains = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const FakeInput good = line({1, 2, 3, 4}, 0.5F, 1);
  EXPECT_EQ(refusal(good), "accepted");
  contains(refusal(line({1}, 0.0F)), "invalid_scale: scales[0]");
  contains(refusal(line({1}, 1.0F, 128)), "zero_points[0] is 128, not one of -128 to 127");
  FakeInput in = good;
  in.problem.mask = false;
  in.problem.strict = true;
  contains(refusal(in), "strict is a word of the mask");
  in = good;
  in.problem.q_min = 5;
  in.problem.q_max = 2;
  contains(refusal(in), "q_min is 5, above q_max 2");
  in = good;
  in.problem.shape = {2, 2};
  contains(refusal(in, {.y_strides = Shape{1, 1}}), "y [2, 2] with strides [1, 1] overlaps itself");
  float x[16] = {};
  const float scale = 1.0F;
  std::uint8_t mask[8];
  const Problem p{.shape = {8}, .mask = true};
  const auto overlap = [&](void* y, void* m) {
    const auto bound = OpTraits<FakeQuantize>::bind(p, {.x = {x, DType::f32, {8}},
                                                        .scales = {&scale, DType::f32, {1}},
                                                        .zero_points = {},
                                                        .y = {y, DType::f32, {8}},
                                                        .mask = {m, DType::u8, {8}}});
    return bound.ok() ? std::string("accepted") : bound.error().str();
  };
  EXPECT_EQ(overlap(x + 8, mask), "accepted");
  contains(overlap(x, mask), "x and y overlap");
  contains(overlap(x + 8, x + 9), "y and mask overlap");
  contains(overlap(x + 8, x + 1), "x and mask overlap");
  contains(overlap(x + 8, nullptr), "mask is null");
  for (const Shape& shape : {Shape{0}, Shape{3, 0}, Shape{0, 5}}) {
    in = line({}, 1.0F);
    in.problem.shape = shape;
    EXPECT_EQ(refusal(in), "accepted") << name(shape);
  }
}

// What a plan reports about itself.
TEST(FakeQuantize, PlansTellTheTruth) {
  const auto context = Context::open({.threads = 1});
  ASSERT_TRUE(context.ok());
  const auto f32 = FakeQuantizePlan::select(*context, {.shape = {4, 4}, .format = Format::u4, .mask = true});
  ASSERT_TRUE(f32.ok());
  EXPECT_EQ(f32->guarantee().math, "f32");
  EXPECT_EQ(f32->guarantee().accumulator, "none");
  EXPECT_TRUE(f32->guarantee().deterministic && f32->guarantee().bit_stable);
  EXPECT_EQ(f32->workspace_bytes(), 0U);
  EXPECT_EQ(f32->id().epilogue, "mask");
  EXPECT_EQ(f32->id().layout, "u4");
  EXPECT_TRUE(f32->id().kernel.starts_with("fake_quantize.u4.")) << f32->id().kernel;
  const auto wide = FakeQuantizePlan::select(*context, {.shape = {4, 4}, .math = AffineMath::torch_cuda});
  ASSERT_TRUE(wide.ok());
  EXPECT_EQ(wide->guarantee().math, "f64");
  EXPECT_EQ(wide->id().epilogue, "none");
}

FakeInput input_of(const test::FakeGolden& golden) {
  FakeInput in{.problem = {}, .x = golden.x, .scales = golden.scales, .zero_points = golden.zero_points};
  in.problem = {.shape = golden.shape,
                .granularity = golden.granularity,
                .dtype = golden.dtype,
                .format = golden.format,
                .zero_points = true,
                .math = AffineMath::reciprocal,
                .mask = true};
  return in;
}

// Values recorded from PyTorch on a CPU (tools/golden_torch.py), which computes as `reciprocal` does and adds the zero
// point after rounding. For f64, PyTorch multiplies in f64 per channel, as we do, but in f32 per tensor.
TEST(FakeQuantize, PyTorchsValuesAndMasks) {
  if (!std::filesystem::exists(TERN_TESTS_DIR)) GTEST_SKIP() << "the source tree is not here";
  int seen = 0;
  for (const test::FakeGolden& golden : test::read_fake_golden(TERN_TESTS_DIR, "cpu")) {
    if (golden.learned) continue;
    ++seen;
    const FakeInput in = input_of(golden);
    const bool narrow = golden.dtype == DType::f64 && golden.granularity == AffineGranularity::tensor();
    for (const NamedKernel& kernel : all_kernels(golden.format)) {
      Values got = run(kernel.entry, in);
      EXPECT_TRUE(got.mask == golden.mask) << kernel.name << ' ' << lab::describe_fake(in.problem);
      EXPECT_EQ(got.y == golden.y, !narrow) << kernel.name << ' ' << lab::describe_fake(in.problem);
      for (std::int64_t i = 0; narrow && i < static_cast<std::int64_t>(got.y.size() / 8); ++i)
        write_element(got.y.data(), DType::f64, i,
                      static_cast<double>(static_cast<float>(read_element(got.y.data(), DType::f64, i))));
      EXPECT_TRUE(got.y == golden.y) << kernel.name << ' ' << lab::describe_fake(in.problem);
    }
  }
  EXPECT_EQ(seen, 12);
}

// Values recorded from PyTorch on a GPU: the same arithmetic except for f64, which we do not promise to match.
TEST(FakeQuantize, PyTorchsValuesAndMasksOnAGpu) {
  if (!std::filesystem::exists(TERN_TESTS_DIR)) GTEST_SKIP() << "the source tree is not here";
  int seen = 0;
  for (const test::FakeGolden& golden : test::read_fake_golden(TERN_TESTS_DIR, "cuda")) {
    if (golden.learned || golden.dtype == DType::f64) continue;
    ++seen;
    const FakeInput in = input_of(golden);
    for (const NamedKernel& kernel : all_kernels(golden.format)) {
      const Values got = run(kernel.entry, in);
      EXPECT_TRUE(got.mask == golden.mask) << kernel.name << ' ' << lab::describe_fake(in.problem);
      EXPECT_TRUE(got.y == golden.y) << kernel.name << ' ' << lab::describe_fake(in.problem);
    }
  }
  EXPECT_EQ(seen, 9);
}

}  // namespace
}  // namespace tern
