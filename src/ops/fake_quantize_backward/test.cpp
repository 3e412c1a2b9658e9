// Every fake_quantize_backward kernel, and the loops at every width, against the reference: bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "lab/fake_problems.h"
#include "ops/fake_quantize_backward/fake_quantize_backward.h"
#include "ops/fake_quantize_backward/generic.h"
#include "tests/support/fake_golden.h"
#include "tests/support/quantize_runner.h"

namespace tern {
namespace {

using lab::BackwardInput;
using lab::Random;
using test::Guarded;
using test::NamedKernel;
using Op = OpTraits<FakeQuantizeBackward>;
using Problem = FakeQuantizeBackward::Problem;

KernelEntry reference(Format format) { return test::reference_kernel("fake_quantize_backward", format); }
// The reference is the last entry.
std::vector<NamedKernel> all_kernels(Format format) {
  auto kernels = test::kernels_and_loops<fake_quantize_backward::Loops>("fake_quantize_backward", format);
  kernels.push_back({"reference", reference(format)});
  return kernels;
}

struct Gradients {
  Status status;
  std::vector<std::byte> x, scales, zero_points;  // all of grad_x's memory, including gaps between elements

  friend bool operator==(const Gradients& a, const Gradients& b) {
    return test::same_bytes(a.x, b.x) && a.scales == b.scales && a.zero_points == b.zero_points;
  }
};

struct Layout {
  std::optional<Shape> in, out;  // strides of grad_y and x, and of grad_x; dense if absent
  std::size_t skip_bytes = 0;    // every buffer begins this far past an aligned address
};

// A copy that ends at a guard page.
struct Copy {
  Guarded<std::byte> bytes;
  std::size_t skip;
  Copy(const void* from, std::size_t n, std::size_t skip_bytes) : bytes(n + skip_bytes), skip(skip_bytes) {
    if (n > 0 && from != nullptr) std::memcpy(data(), from, n);
  }
  std::byte* data() { return bytes.data() + skip; }
  std::vector<std::byte> all() { return {data(), bytes.data() + bytes.size()}; }
};

Gradients run(const KernelEntry& entry, const BackwardInput& in, int threads = 1, const Layout& layout = {}) {
  const Problem& p = in.problem;
  Gradients out;
  if (auto facts = Op::facts(p); !facts.ok()) {
    out.status = std::move(facts).error();
    return out;
  }
  const Shape strides = layout.in.value_or(dense_strides(p.shape)), to = layout.out.value_or(dense_strides(p.shape));
  std::int64_t reach = 1;
  for (int i = 0; i < p.shape.rank(); ++i) reach += (p.shape[i] - 1) * to[i];
  const std::size_t skip = layout.skip_bytes;
  Copy grad_y(in.grad_y.data(), in.grad_y.size(), skip), x(in.x.data(), in.x.size(), skip);
  Copy scales(in.scales.data(), in.scales.size(), skip), mask(in.mask.data(), in.mask.size(), skip);
  Copy zero_points(in.zero_points.data(), 4 * in.zero_points.size(), skip);
  Copy grad_x(nullptr, affine::is_empty(p.shape) ? 0 : static_cast<std::size_t>(reach) * size_of(p.dtype), skip);
  Copy grad_scales(nullptr, in.scales.size(), skip), grad_zero_points(nullptr, in.scales.size(), skip);
  const auto count = static_cast<std::int64_t>(in.scales.size() / size_of(p.scale_dtype));
  auto params =
      Op::bind(p, {.grad_y = {grad_y.data(), p.dtype, p.shape, strides, {}},
                   .x = {x.data(), p.dtype, p.shape, strides, {}},
                   .scales = {scales.data(), p.scale_dtype, {count}},
                   .zero_points = {zero_points.data(), DType::i32, {static_cast<std::int64_t>(in.zero_points.size())}},
                   .mask = {mask.data(), DType::u8, p.shape},
                   .grad_x = {grad_x.data(), p.dtype, p.shape, to, {}},
                   .grad_scales = {grad_scales.data(), p.scale_dtype, {count}},
                   .grad_zero_points = {grad_zero_points.data(), p.scale_dtype, {count}}});
  if (!params.ok()) {
    out.status = std::move(params).error();
    return out;
  }
  if (!Op::empty(*params)) out.status = test::run_entry(entry, p, *params, threads);
  out.x = grad_x.all();
  out.scales = grad_scales.all();
  out.zero_points = grad_zero_points.all();
  return out;
}

// A problem of this shape in f32 and s8, with scales near one.
BackwardInput plain(Random& random, const Shape& shape, const AffineGranularity& granularity) {
  BackwardInput in;
  in.problem = {.shape = shape, .granularity = granularity, .qparam_gradients = true};
  const std::int64_t n = *element_count(shape), count = *affine_scale_count(shape, granularity);
  in.x.resize(static_cast<std::size_t>(4 * n));
  in.grad_y.resize(static_cast<std::size_t>(4 * n));
  in.scales.resize(static_cast<std::size_t>(4 * count));
  for (std::int64_t i = 0; i < n; ++i) {
    write_element(in.x.data(), DType::f32, i, 60.0 * static_cast<double>(random.gaussian()));
    write_element(in.grad_y.data(), DType::f32, i, static_cast<double>(random.gaussian()));
  }
  for (std::int64_t i = 0; i < count; ++i)
    write_element(in.scales.data(), DType::f32, i, 0.7 + 0.01 * static_cast<double>(i % 60));
  return in;
}

TEST(FakeQuantizeBackward, EveryFormatTypeAndGranularity) {
  Random random(1);
  for (const Format format : lab::kAffineFormats) {
    const auto kernels = all_kernels(format);
    for (const DType dtype : lab::kFloatTypes)
      for (int repetition = 0; repetition < 30; ++repetition) {
        const BackwardInput in = lab::random_backward(random, dtype, format);
        const Gradients want = run(reference(format), in);
        ASSERT_TRUE(want.status.ok()) << want.status.error().str() << ' ' << lab::describe_fake(in.problem);
        for (const NamedKernel& kernel : kernels) {
          const Layout layout{.skip_bytes = static_cast<std::size_t>(random.below(2))};
          ASSERT_TRUE(run(kernel.entry, in, 1 + static_cast<int>(random.below(3)), layout) == want)
              << kernel.name << ' ' << lab::describe_fake(in.problem);
        }
      }
  }
}

// All 65,536 values of f16 and of bf16 as x, and all as gradients, NaN included.
TEST(FakeQuantizeBackward, EveryHalfThereIs) {
  BackwardInput in;
  in.x.resize(2 * 65536);
  in.grad_y.resize(2 * 65536);
  in.mask.resize(65536);
  for (std::uint32_t h = 0; h < 65536; ++h) {
    store_element(in.x.data(), h, static_cast<std::uint16_t>(h));
    store_element(in.grad_y.data(), h, static_cast<std::uint16_t>(h * 40'503U));
    in.mask[h] = static_cast<std::byte>(h >> 9 & 1U);
  }
  in.scales.resize(4);
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const float scale : {1.0F, 0.0173F, 511.7F})
      for (const int zero_point : {-128, 127, 1})
        for (const bool from_mask : {false, true}) {
          in.problem = {.shape = {65536},
                        .dtype = dtype,
                        .zero_points = true,
                        .non_finite = NonFinite::saturate,
                        .from_mask = from_mask};
          std::memcpy(in.scales.data(), &scale, 4);
          in.zero_points = {zero_point};
          const Gradients want = run(reference(Format::s8), in);
          ASSERT_TRUE(want.status.ok()) << want.status.error().str();
          for (const NamedKernel& kernel : all_kernels(Format::s8))
            ASSERT_TRUE(run(kernel.entry, in) == want) << kernel.name << ' ' << name(dtype) << ' ' << scale;
        }
}

// A gradient passes bit for bit or becomes 0 with its sign; so do Inf and NaN.
TEST(FakeQuantizeBackward, WhatDoesNotPassIsZero) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  const std::vector<float> g = {1.5F, -1.5F, -infinite, nan, -0.0F, 3, -3, 1e-45F};
  BackwardInput in;
  in.problem = {.shape = {8}, .from_mask = true};
  in.grad_y.resize(32);
  std::memcpy(in.grad_y.data(), g.data(), 32);
  for (const bool passes : {true, false}) {
    in.mask.assign(8, static_cast<std::byte>(passes));
    for (const NamedKernel& kernel : all_kernels(Format::s8)) {
      const Gradients got = run(kernel.entry, in);
      ASSERT_TRUE(got.status.ok());
      for (std::int64_t i = 0; i < 8; ++i) {
        const auto bits = load_element<std::uint32_t>(got.x.data(), i);
        const auto given = load_element<std::uint32_t>(in.grad_y.data(), i);
        EXPECT_EQ(bits, passes ? given : given & 0x8000'0000U) << kernel.name;
      }
    }
  }
}

// Gradients in f64 of very different sizes, so that any other order of summation changes the last bits. One range,
// along the last axis or across it, with lengths around those of blocks and segments.
TEST(FakeQuantizeBackward, SumsHaveTheContractsOrder) {
  for (const std::int64_t n : {1024, 1023, 1025, 4099, 65536, 65537, 140'003})
    for (const bool across : {false, true}) {
      BackwardInput in;
      in.problem = {.shape = across ? Shape{n, 1} : Shape{1, n},
                    .granularity = across ? AffineGranularity::channel(1) : AffineGranularity::token(),
                    .dtype = DType::f64,
                    .scale_dtype = DType::f64,
                    .q_min = -1,
                    .q_max = 1,
                    .qparam_gradients = true};
      in.x.resize(static_cast<std::size_t>(8 * n));
      in.grad_y.resize(static_cast<std::size_t>(8 * n));
      in.scales.resize(8);
      write_element(in.scales.data(), DType::f64, 0, 1.0);
      for (std::int64_t i = 0; i < n; ++i) {
        write_element(in.x.data(), DType::f64, i, 7.0);  // outside: the step is 1
        const auto digits = static_cast<double>(i * 7'919 % 1'000'003 - 500'000);
        write_element(in.grad_y.data(), DType::f64, i, std::ldexp(digits, -static_cast<int>(i % 47)) / 3);
      }
      const Gradients want = run(reference(Format::s8), in);
      ASSERT_TRUE(want.status.ok());
      for (const NamedKernel& kernel : all_kernels(Format::s8))
        for (const int threads : {1, 3})
          ASSERT_TRUE(run(kernel.entry, in, threads) == want) << kernel.name << ' ' << n << ' ' << across;
    }
}

TEST(FakeQuantizeBackward, LongRangesOnSeveralThreads) {
  Random random(5);
  const Shape shape{70'001, 3};
  for (const auto& [of, granularity] :
       {std::pair{shape, AffineGranularity::tensor()}, std::pair{shape, AffineGranularity::channel(1)},
        std::pair{shape, AffineGranularity::group(66'000, 0)}, std::pair{Shape{3, 70'001}, AffineGranularity::token()},
        std::pair{Shape{2, 3, 40, 401}, AffineGranularity::channel(1)},
        std::pair{Shape{2, 100'003}, AffineGranularity::group(70'000)},
        std::pair{Shape{2, 50'001}, AffineGranularity::group(96)}}) {
    const BackwardInput in = plain(random, of, granularity);
    const Gradients want = run(reference(Format::s8), in);
    ASSERT_TRUE(want.status.ok()) << want.status.error().str();
    for (const NamedKernel& kernel : all_kernels(Format::s8))
      for (const int threads : {1, 4})
        ASSERT_TRUE(run(kernel.entry, in, threads) == want) << kernel.name << ' ' << lab::describe_fake(in.problem);
  }
}

TEST(FakeQuantizeBackward, AnyStrides) {
  Random random(6);
  for (const auto& granularity : {AffineGranularity::tensor(), AffineGranularity::channel(1),
                                  AffineGranularity::group(3, 1), AffineGranularity::group(16)})
    for (const Shape& in_strides : {Shape{1, 50, 10}, Shape{1000, 100, 2}, Shape{0, 70, 1}, Shape{250, 50, 1}})
      for (const Shape& out_strides : {Shape{1, 150, 3}, Shape{5000, 1, 90}, Shape{250, 50, 1}}) {
        BackwardInput in = plain(random, {3, 5, 50}, granularity);
        in.x.clear();
        for (int i = 0; i < 3000; ++i) {
          in.x.resize(in.x.size() + 4);
          write_element(in.x.data(), DType::f32, i, 60.0 * static_cast<double>(random.gaussian()));
        }
        in.grad_y = in.x;
        const Layout layout{.in = in_strides, .out = out_strides};
        const Gradients want = run(reference(Format::s8), in, 1, layout);
        ASSERT_TRUE(want.status.ok()) << want.status.error().str();
        for (const NamedKernel& kernel : all_kernels(Format::s8))
          ASSERT_TRUE(run(kernel.entry, in, 2, layout) == want)
              << kernel.name << ' ' << name(granularity) << ' ' << name(in_strides) << ' ' << name(out_strides);
      }
}

// Outputs large enough for streaming stores, from a mask and with sums.
TEST(FakeQuantizeBackward, LargeOutputs) {
  Random random(7);
  BackwardInput in = plain(random, {3, 2'900'001}, AffineGranularity::token());
  in.mask.resize(in.x.size() / 4);
  for (std::size_t i = 0; i < in.mask.size(); ++i) in.mask[i] = static_cast<std::byte>(i % 3 != 0);
  for (const bool from_mask : {true, false}) {
    in.problem.from_mask = from_mask;
    in.problem.qparam_gradients = !from_mask;
    const Gradients want = run(reference(Format::s8), in);
    for (const NamedKernel& kernel : test::runnable_kernels("fake_quantize_backward", Format::s8))
      ASSERT_TRUE(run(kernel.entry, in, 2) == want) << kernel.name << ' ' << from_mask;
  }
}

TEST(FakeQuantizeBackward, NonFiniteIsNamedOrSaturated) {
  Random random(8);
  for (const bool gradients : {false, true}) {
    BackwardInput in = plain(random, {4, 70}, AffineGranularity::group(32));
    in.problem.qparam_gradients = gradients;
    write_element(in.x.data(), DType::f32, 139, std::numeric_limits<double>::quiet_NaN());
    write_element(in.x.data(), DType::f32, 200, -HUGE_VAL);
    for (const NamedKernel& kernel : all_kernels(Format::s8)) {
      in.problem.non_finite = NonFinite::reject;
      const Gradients refused = run(kernel.entry, in);
      ASSERT_EQ(refused.status.code(), Code::non_finite) << kernel.name;
      EXPECT_EQ(refused.status.error().index, 139) << kernel.name;
      in.problem.non_finite = NonFinite::saturate;
      const Gradients got = run(kernel.entry, in);
      ASSERT_TRUE(got.status.ok()) << kernel.name;
      EXPECT_EQ(read_element(got.x.data(), DType::f32, 139), read_element(in.grad_y.data(), DType::f32, 139));
      EXPECT_EQ(read_element(got.x.data(), DType::f32, 200), 0) << kernel.name;
      EXPECT_TRUE(got == run(reference(Format::s8), in)) << kernel.name;
    }
  }
}

TEST(FakeQuantizeBackward, RefusesByName) {
  Random random(9);
  const BackwardInput good = plain(random, {2, 4}, AffineGranularity::tensor());
  const auto refusal = [](const BackwardInput& in, const Layout& layout = {}) {
    const Gradients out = run(reference(Format::s8), in, 1, layout);
    return out.status.ok() ? std::string("accepted") : out.status.error().str();
  };
  const auto contains = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  EXPECT_EQ(refusal(good), "accepted");
  BackwardInput in = good;
  in.problem.from_mask = true;
  contains(refusal(in), "gradients of scales need x");
  in = good;
  in.problem.grad_factor = HUGE_VAL;
  contains(refusal(in), "grad_factor is inf");
  in = good;
  write_element(in.scales.data(), DType::f32, 0, 0.0);
  contains(refusal(in), "scales[0] is 0");
  contains(refusal(good, {.out = Shape{1, 1}}), "grad_x [2, 4] with strides [1, 1] overlaps itself");
  float g[8] = {}, x[8] = {}, to[8] = {}, sums[2] = {};
  const float scale = 1;
  const auto overlap = [&](float* grad_x, float* scales, float* zero_points) {
    const auto bound =
        Op::bind({.shape = {8}, .qparam_gradients = true}, {.grad_y = {g, DType::f32, {8}},
                                                            .x = {x, DType::f32, {8}},
                                                            .scales = {&scale, DType::f32, {1}},
                                                            .zero_points = {},
                                                            .mask = {},
                                                            .grad_x = {grad_x, DType::f32, {8}},
                                                            .grad_scales = {scales, DType::f32, {1}},
                                                            .grad_zero_points = {zero_points, DType::f32, {1}}});
    return bound.ok() ? std::string("accepted") : bound.error().str();
  };
  EXPECT_EQ(overlap(to, sums, sums + 1), "accepted");
  contains(overlap(g, sums, sums + 1), "grad_y and grad_x overlap");
  contains(overlap(to, sums, sums), "grad_zero_points and grad_scales overlap");
  contains(overlap(to, to + 3, sums), "grad_x and grad_scales overlap");
  contains(overlap(to, sums, nullptr), "grad_zero_points is null");
  const auto no_mask = Op::bind({.shape = {8}, .from_mask = true}, {.grad_y = {g, DType::f32, {8}},
                                                                    .x = {},
                                                                    .scales = {},
                                                                    .zero_points = {},
                                                                    .mask = {nullptr, DType::u8, {8}},
                                                                    .grad_x = {to, DType::f32, {8}},
                                                                    .grad_scales = {},
                                                                    .grad_zero_points = {}});
  ASSERT_FALSE(no_mask.ok());
  contains(no_mask.error().str(), "mask is null");
}

TEST(FakeQuantizeBackward, PlansTellTheTruth) {
  const auto context = Context::open({.threads = 1});
  ASSERT_TRUE(context.ok());
  Problem problem{.shape = {70'000, 4}, .granularity = AffineGranularity::channel(1), .qparam_gradients = true};
  const auto sums = FakeQuantizeBackwardPlan::select(*context, problem);
  ASSERT_TRUE(sums.ok());
  EXPECT_EQ(sums->guarantee().math, "f32");
  EXPECT_EQ(sums->guarantee().accumulator, "f64");
  EXPECT_TRUE(sums->guarantee().deterministic && sums->guarantee().bit_stable);
  EXPECT_EQ(sums->id().epilogue, "qparam_gradients");
  EXPECT_EQ(sums->workspace_bytes(), 2U * 4 * 16);  // two segments of four ranges
  problem.qparam_gradients = false;
  problem.strict = true;
  const auto plain_mask = FakeQuantizeBackwardPlan::select(*context, problem);
  ASSERT_TRUE(plain_mask.ok());
  EXPECT_EQ(plain_mask->guarantee().accumulator, "none");
  EXPECT_EQ(plain_mask->id().epilogue, "none.strict");
  EXPECT_EQ(plain_mask->workspace_bytes(), 0U);
}

// Gradients recorded from PyTorch on a CPU (tools/golden_torch.py). Gradients of x match bit for bit, with its mask and
// with ours. PyTorch sums products rounded to f32, so each of its sums may differ from ours by 2^-20 times the sum of
// abs(grad_y) * (abs(q - zp) + 1).
TEST(FakeQuantizeBackward, PyTorchsGradients) {
  if (!std::filesystem::exists(TERN_TESTS_DIR)) GTEST_SKIP() << "the source tree is not here";
  auto cases = test::read_fake_golden(TERN_TESTS_DIR, "cpu");
  ASSERT_EQ(cases.size(), 15U);
  for (test::FakeGolden& golden : test::read_fake_golden(TERN_TESTS_DIR, "cuda"))  // if that file exists
    if (golden.dtype != DType::f64) cases.push_back(std::move(golden));
  for (const test::FakeGolden& golden : cases) {
    BackwardInput in;
    in.problem = {.shape = golden.shape,
                  .granularity = golden.granularity,
                  .dtype = golden.dtype,
                  .format = golden.format,
                  .zero_points = true,
                  .math = AffineMath::reciprocal,
                  .qparam_gradients = golden.learned,
                  .grad_factor = golden.grad_factor};
    in.x = golden.x;
    in.grad_y = golden.grad_y;
    in.scales = golden.scales;
    in.zero_points = golden.zero_points;
    in.mask = golden.mask;
    for (const NamedKernel& kernel : all_kernels(golden.format)) {
      const Gradients got = run(kernel.entry, in);
      ASSERT_TRUE(got.status.ok()) << got.status.error().str();
      EXPECT_TRUE(got.x == golden.grad_x) << kernel.name << ' ' << lab::describe_fake(in.problem);
      if (!golden.learned) {
        BackwardInput masked = in;
        masked.problem.from_mask = true;
        EXPECT_TRUE(run(kernel.entry, masked).x == golden.grad_x) << kernel.name;
        continue;
      }
      std::vector<double> bound(golden.zero_points.size());
      for (std::int64_t i = 0; i < *element_count(golden.shape); ++i) {
        const std::int64_t range =
            affine::range_of(golden.shape, golden.granularity, affine::place_of(golden.shape, i));
        const auto at = static_cast<std::size_t>(range);
        const double v = read_element(in.x.data(), DType::f32, i) / read_element(in.scales.data(), DType::f32, range);
        const CodeRange q = code_range(golden.format);
        const double code = std::clamp<double>(v, q.min - in.zero_points[at], q.max - in.zero_points[at]);
        bound[at] += 0x1p-20 * golden.grad_factor * (std::fabs(code) + 1) *
                     std::fabs(read_element(in.grad_y.data(), DType::f32, i));
      }
      for (std::size_t i = 0; i < bound.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        EXPECT_NEAR(read_element(got.scales.data(), DType::f32, at),
                    read_element(golden.grad_scales.data(), DType::f32, at), bound[i]);
        EXPECT_NEAR(read_element(got.zero_points.data(), DType::f32, at),
                    read_element(golden.grad_zero_points.data(), DType::f32, at), bound[i]);
      }
    }
  }
}

// PyTorch's learnable op adds the zero point before rounding in its gradients, but after rounding in its values. At a
// tie with an odd zero point the two disagree (torch 2.15, cpu: x/s = 124.5 with zp 3 gives code 127, within the range,
// but a gradient of 0). Here the gradient agrees with the value.
TEST(FakeQuantizeBackward, ATieWithAnOddZeroPointPasses) {
  BackwardInput in;
  in.problem = {.shape = {40}, .zero_points = true, .qparam_gradients = true};
  in.x.resize(160);
  in.grad_y.resize(160);
  for (int i = 0; i < 40; ++i) write_element(in.x.data(), DType::f32, i, 124.5);
  for (int i = 0; i < 40; ++i) write_element(in.grad_y.data(), DType::f32, i, 1.0);
  in.scales.resize(4);
  write_element(in.scales.data(), DType::f32, 0, 1.0);
  in.zero_points = {3};
  for (const NamedKernel& kernel : all_kernels(Format::s8)) {
    const Gradients got = run(kernel.entry, in);
    EXPECT_TRUE(got.x == in.grad_y) << kernel.name;
    EXPECT_EQ(read_element(got.scales.data(), DType::f32, 0), 40 * -0.5) << kernel.name;
    EXPECT_EQ(read_element(got.zero_points.data(), DType::f32, 0), 0) << kernel.name;
  }
}

}  // namespace
}  // namespace tern
