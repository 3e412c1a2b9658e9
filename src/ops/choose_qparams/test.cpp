// Every choose_qparams kernel, and the loops at every width, against the reference: bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "lab/qparams_problems.h"
#include "ops/choose_qparams/choose_qparams.h"
#include "ops/choose_qparams/generic.h"
#include "ops/ordered_sum.h"
#include "tests/support/qparams_golden.h"
#include "tests/support/quantize_runner.h"

namespace tern {
namespace {

using lab::QparamsInput;
using lab::Random;
using test::Guarded;
using test::NamedKernel;
using Problem = ChooseQparams::Problem;

constexpr float kMax = std::numeric_limits<float>::max();

KernelEntry reference(Format format = Format::s8) { return test::reference_kernel("choose_qparams", format); }
// The kernels that run here, and the reference if the test does not compare with it.
std::vector<NamedKernel> all_kernels(Format format = Format::s8, bool with_reference = false) {
  auto kernels = test::kernels_and_loops<choose_qparams::Loops>("choose_qparams", format);
  if (with_reference) kernels.push_back({"reference", reference(format)});
  return kernels;
}

struct Qparams {
  Status status;
  std::vector<double> scales;
  std::vector<std::int32_t> zero_points;
  [[nodiscard]] bool same(const Qparams& other) const {
    return scales == other.scales && zero_points == other.zero_points;  // scales are finite and above 0: == is bits
  }
};

Qparams run(const KernelEntry& entry, const QparamsInput& in, int threads = 1, const Shape* strides = nullptr) {
  const Problem& p = in.problem;
  Qparams out;
  if (auto facts = OpTraits<ChooseQparams>::facts(p); !facts.ok()) {
    out.status = std::move(facts).error();
    return out;
  }
  const std::int64_t count = *affine_scale_count(p.shape, p.granularity);
  Guarded<std::byte> x(in.x.size()), scales(static_cast<std::size_t>(count) * size_of(p.scale_dtype));
  Guarded<std::int32_t> zero_points(p.zero_points ? static_cast<std::size_t>(count) : 0U);
  std::copy(in.x.begin(), in.x.end(), x.data());
  const auto params = OpTraits<ChooseQparams>::bind(
      p, {.x = {x.data(), p.dtype, p.shape, strides == nullptr ? dense_strides(p.shape) : *strides, {}},
          .scales = {scales.data(), p.scale_dtype, {count}},
          .zero_points = {zero_points.data(), DType::i32, {static_cast<std::int64_t>(zero_points.size())}}});
  if (!params.ok()) {
    out.status = params.error();
    return out;
  }
  out.status = test::run_entry(entry, p, *params, threads);
  for (std::int64_t i = 0; i < count; ++i) out.scales.push_back(read_element(scales.data(), p.scale_dtype, i));
  out.zero_points.assign(zero_points.data(), zero_points.data() + zero_points.size());
  return out;
}

// One range of f32.
QparamsInput line(const std::vector<float>& x, QparamsMethod method, bool zero_points = false) {
  QparamsInput in;
  in.problem.shape = {static_cast<std::int64_t>(x.size())};
  in.problem.method = method;
  in.problem.zero_points = zero_points;
  in.x.resize(4 * x.size());
  std::memcpy(in.x.data(), x.data(), in.x.size());
  return in;
}

TEST(ChooseQparams, EveryMethodTypeAndGranularity) {
  Random random(1);
  for (const Format format : {Format::s8, Format::u8, Format::s4, Format::u2}) {
    const auto kernels = all_kernels(format);
    for (const DType dtype : lab::kFloatTypes)
      for (int repetition = 0; repetition < 25; ++repetition) {
        const QparamsInput in = lab::random_qparams(random, dtype, format);
        const Qparams want = run(reference(format), in);
        ASSERT_TRUE(want.status.ok()) << want.status.error().str() << ' ' << lab::describe_choice(in.problem);
        for (const NamedKernel& kernel : kernels) {
          const Qparams got = run(kernel.entry, in, 1 + static_cast<int>(random.below(3)));
          ASSERT_TRUE(got.status.ok()) << got.status.error().str();
          ASSERT_TRUE(got.same(want)) << kernel.name << ' ' << lab::describe_choice(in.problem);
        }
      }
  }
}

// All 65,536 values of f16 and of bf16, non-finite ones saturated, in ranges of several lengths.
TEST(ChooseQparams, EveryHalfThereIs) {
  QparamsInput in;
  in.x.resize(2 * 65536);
  for (std::uint32_t h = 0; h < 65536; ++h)
    store_element(in.x.data(), h, static_cast<std::uint16_t>(h * 40'503));  // odd factor: each value once, shuffled
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const std::int64_t group : {1, 5, 64, 1000, 65536})
      for (const DType scale_dtype : {DType::f32, dtype}) {
        in.problem = {};
        in.problem.shape = {65536};
        in.problem.granularity = AffineGranularity::group(group);
        in.problem.dtype = dtype;
        in.problem.scale_dtype = scale_dtype;
        in.problem.non_finite = NonFinite::saturate;
        for (const bool zero_points : {false, true}) {
          in.problem.zero_points = zero_points;
          in.problem.method = zero_points ? QparamsMethod::minmax : QparamsMethod::absmax;
          const Qparams want = run(reference(), in);
          ASSERT_TRUE(want.status.ok()) << want.status.error().str();
          for (const NamedKernel& kernel : all_kernels())
            ASSERT_TRUE(run(kernel.entry, in).same(want)) << kernel.name << ' ' << lab::describe_choice(in.problem);
        }
      }
}

TEST(ChooseQparams, WhatTheFormulasSay) {
  struct {
    std::vector<float> x;
    QparamsMethod method;
    float scale;
    std::optional<int> zero_point;
  } const cases[] = {
      {{-1.0F, 3.0F, 0.5F}, QparamsMethod::absmax, 3.0F / 127.5F, {}},
      {{-1.0F, 3.0F, 0.5F}, QparamsMethod::minmax, 4.0F / 255.0F, -128 + 64},
      {{2.0F, 3.0F}, QparamsMethod::minmax, 3.0F / 255.0F, -128},  // widened to hold 0
      {{-2.0F, -3.0F}, QparamsMethod::minmax, 3.0F / 255.0F, 127},
      {{0.0F, -0.0F, 0.0F}, QparamsMethod::minmax, 0x1p-23F, -128},  // all zeros: eps
      {{0.0F, -0.0F, 0.0F}, QparamsMethod::absmax, 0x1p-23F, {}},
      {{1e-20F, -1e-20F}, QparamsMethod::minmax, 0x1p-23F, -128},      // and values below eps
      {{-0.75F, -0.75F}, QparamsMethod::minmax, 0.75F / 255.0F, 127},  // one value
      {{-1.0F, 254.0F}, QparamsMethod::minmax, 1.0F, -127},
      {{-2.5F, 252.5F}, QparamsMethod::minmax, 1.0F, -126},  // ties to even
      {{-3.5F, 251.5F}, QparamsMethod::minmax, 1.0F, -124},
      {{-kMax, kMax}, QparamsMethod::minmax, kMax / 255.0F + kMax / 255.0F, 0},  // max - min alone is infinite
      {{-kMax, kMax}, QparamsMethod::absmax, kMax / 127.5F, {}},
  };
  for (const auto& c : cases)
    for (const NamedKernel& kernel : all_kernels(Format::s8, true)) {
      std::vector<float> x = c.x;  // once short, once repeated to 71 elements
      for (const std::size_t n : {c.x.size(), std::size_t{71}}) {
        while (x.size() < n) x.push_back(x[x.size() - c.x.size()]);
        const Qparams got = run(kernel.entry, line(x, c.method, c.zero_point.has_value()));
        ASSERT_TRUE(got.status.ok()) << got.status.error().str();
        EXPECT_EQ(got.scales, std::vector<double>{c.scale}) << kernel.name << ' ' << c.x[0] << ' ' << n;
        const auto want = c.zero_point ? std::vector<std::int32_t>{*c.zero_point} : std::vector<std::int32_t>{};
        EXPECT_EQ(got.zero_points, want) << kernel.name << ' ' << c.x[0] << ' ' << n;
      }
    }
  // -127 to 127: the largest magnitude is the last code on either side.
  QparamsInput restricted = line({-2.0F, 1.0F}, QparamsMethod::absmax);
  restricted.problem.q_min = -127;
  restricted.problem.q_max = 127;
  for (const NamedKernel& kernel : all_kernels(Format::s8, true))
    EXPECT_EQ(run(kernel.entry, restricted).scales, std::vector<double>{2.0F / 127.0F}) << kernel.name;
}

TEST(ChooseQparams, PercentilesAreNearestRanks) {
  std::vector<float> x;  // -1000 to -1 and 1 to 9000
  for (int i = 1; i <= 1000; ++i) x.push_back(static_cast<float>(-i));
  for (int i = 1; i <= 9000; ++i) x.push_back(static_cast<float>(i));
  Random random(3);
  for (std::size_t i = x.size() - 1; i > 0; --i)
    std::swap(x[i], x[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i) + 1))]);
  struct {
    double percentile;
    float magnitude, lowest, highest;
  } const cases[] = {
      {100, 9000, -1000, 9000}, {99.9, 8990, -990, 8990}, {99.995, 9000, -1000, 9000}, {90, 8000, 0, 8000}};
  for (const NamedKernel& kernel : all_kernels(Format::s8, true))
    for (const auto& c : cases) {
      QparamsInput in = line(x, QparamsMethod::percentile);
      in.problem.percentile = c.percentile;
      EXPECT_EQ(run(kernel.entry, in).scales, std::vector<double>{c.magnitude / 127.5F}) << kernel.name << c.percentile;
      in.problem.zero_points = true;
      EXPECT_EQ(run(kernel.entry, in).scales, std::vector<double>{(c.highest - c.lowest) / 255.0F})
          << kernel.name << c.percentile;
    }
}

// One value far outside: mse excludes it, because the error is then smaller than with the full range.
TEST(ChooseQparams, ErrorsThatShrink) {
  std::vector<float> x(4096, 0.0F);
  Random random(4);
  for (float& v : x) v = random.gaussian();
  x[77] = 12.0F;
  QparamsInput in = line(x, QparamsMethod::mse);
  in.problem.format = Format::s4;
  const auto error_of = [&](double scale) {
    double sum = 0;
    for (const float v : x) {
      const double code = std::fmin(std::fmax(std::nearbyint(static_cast<double>(v) / scale), -8.0), 7.0);
      sum += (static_cast<double>(v) - code * scale) * (static_cast<double>(v) - code * scale);
    }
    return sum;
  };
  const double all = static_cast<double>(12.0F / 7.5F);
  for (const NamedKernel& kernel : all_kernels(Format::s4, true)) {
    const Qparams got = run(kernel.entry, in);
    ASSERT_TRUE(got.status.ok());
    const double percent = got.scales[0] / all * 100;
    EXPECT_NEAR(percent, std::round(percent), 1e-4) << kernel.name;
    EXPECT_LT(percent, 60) << kernel.name;
    for (int i = 21; i <= 100; ++i)  // computed in f64 in plain order: no other range is better by more than rounding
      EXPECT_LE(error_of(got.scales[0]), error_of(all * i / 100) * (1 + 1e-5)) << kernel.name << ' ' << i;
  }
  // If all errors are equal, mse takes the largest range.
  for (const NamedKernel& kernel : all_kernels(Format::s8, true))
    EXPECT_EQ(run(kernel.entry, line(std::vector<float>(50, 0.0F), QparamsMethod::mse)).scales,
              std::vector<double>{0x1p-23})
        << kernel.name;
}

// Squares whose sum depends on the order: the plain sum here must differ from the contract's.
TEST(ChooseQparams, ErrorsInTheContractsOrder) {
  for (const std::int64_t n : {1024, 1025, 3000, 70'000}) {
    std::vector<float> x;
    Random random(static_cast<std::uint64_t>(n));
    for (std::int64_t i = 0; i < n; ++i) x.push_back(std::ldexp(random.gaussian(), -static_cast<int>(i % 25)));
    const auto square = [&](std::int64_t i) {
      const float v = x[static_cast<std::size_t>(i)];
      const float code = std::fmin(std::fmax(std::nearbyint(v / 1e-3F), -3.0F), 5.0F);
      const auto error = static_cast<double>(v - code * 1e-3F);
      return error * error;
    };
    double want = ordered_sum(n, square), plain = 0;
    for (std::int64_t i = 0; i < n; ++i) plain += square(i);
    EXPECT_NE(plain, want);
    const std::vector<double> wide(x.begin(), x.end());
    const auto wide_square = [&](std::int64_t i) {
      const double v = wide[static_cast<std::size_t>(i)];
      const double error = v - std::fmin(std::fmax(std::nearbyint(v / 1e-3), -3.0), 5.0) * 1e-3;
      return error * error;
    };
    for (const NamedKernel& kernel : all_kernels()) {
      if (kernel.on_gpu) continue;
      const auto& table = *static_cast<const choose_qparams::SimdTable*>(kernel.entry.table);
      EXPECT_EQ(table.squared_error(x.data(), n, 1e-3F, -3.0F, 5.0F), want) << kernel.name << ' ' << n;
      EXPECT_EQ(table.wide_squared_error(wide.data(), n, 1e-3, -3.0, 5.0), ordered_sum(n, wide_square)) << kernel.name;
    }
    // One range, for which the threads share the tries of mse.
    const QparamsInput in = line(x, QparamsMethod::mse, true);
    const Qparams alone = run(reference(), in);
    for (const int threads : {1, 3})
      EXPECT_TRUE(run(all_kernels().front().entry, in, threads).same(alone)) << n << ' ' << threads;
  }
}

// Strides that permute the axes, skip every second element, or repeat one row (stride 0).
TEST(ChooseQparams, AnyStrides) {
  Random random(5);
  for (const DType dtype : lab::kFloatTypes)
    for (const Shape& strides : {Shape{1, 50, 10}, Shape{1000, 100, 2}, Shape{0, 70, 1}, Shape{600, 1, 90}})
      for (const auto& granularity :
           {AffineGranularity::tensor(), AffineGranularity::token(), AffineGranularity::channel(0),
            AffineGranularity::channel(1), AffineGranularity::channel(2), AffineGranularity::group(7),
            AffineGranularity::group(2, 0), AffineGranularity::group(3, 1)}) {
        QparamsInput in;
        in.problem.shape = {3, 5, 50};
        in.problem.granularity = granularity;
        in.problem.dtype = dtype;
        in.problem.zero_points = true;
        in.problem.method = random.below(2) == 0 ? QparamsMethod::minmax : QparamsMethod::percentile;
        in.problem.percentile = 80;
        in.x.resize(6000 * size_of(dtype));
        for (std::int64_t i = 0; i < 6000; ++i)
          write_element(in.x.data(), dtype, i, static_cast<double>(random.gaussian()) + 0.25);
        const Qparams want = run(reference(), in, 1, &strides);
        ASSERT_TRUE(want.status.ok()) << want.status.error().str();
        for (const NamedKernel& kernel : all_kernels())
          ASSERT_TRUE(run(kernel.entry, in, 2, &strides).same(want))
              << kernel.name << ' ' << lab::describe_choice(in.problem) << ' ' << name(strides);
      }
}

// Few long ranges that threads share, with enough work to use several threads.
TEST(ChooseQparams, LongRangesOnSeveralThreads) {
  Random random(6);
  QparamsInput in;
  in.x.resize(4 * 120'003);
  for (std::int64_t i = 0; i < 120'003; ++i)
    write_element(in.x.data(), DType::f32, i, static_cast<double>(random.gaussian()));
  for (const Shape& shape : {Shape{3, 40'001}, Shape{40'001, 3}})
    for (const auto& granularity :
         {AffineGranularity::tensor(), AffineGranularity::token(), AffineGranularity::channel(0),
          AffineGranularity::channel(1), AffineGranularity::group(128), AffineGranularity::group(30'000),
          AffineGranularity::group(30'000, 0)})
      for (const QparamsMethod method : {QparamsMethod::minmax, QparamsMethod::percentile}) {
        in.problem.shape = shape;
        in.problem.granularity = granularity;
        in.problem.method = method;
        in.problem.zero_points = true;
        const Qparams want = run(reference(), in);
        for (const NamedKernel& kernel : all_kernels())
          for (const int threads : {2, 5})
            ASSERT_TRUE(run(kernel.entry, in, threads).same(want))
                << kernel.name << ' ' << lab::describe_choice(in.problem) << ' ' << threads;
      }
}

TEST(ChooseQparams, NonFiniteIsNamedOrSaturated) {
  for (const DType dtype : lab::kFloatTypes)
    for (const auto& granularity : {AffineGranularity::group(32), AffineGranularity::token(),
                                    AffineGranularity::channel(1), AffineGranularity::tensor()})
      for (const QparamsMethod method : {QparamsMethod::absmax, QparamsMethod::percentile, QparamsMethod::mse}) {
        QparamsInput in;
        in.problem.shape = {4, 70};
        in.problem.granularity = granularity;
        in.problem.dtype = dtype;
        in.problem.scale_dtype =
            dtype == DType::f64 ? DType::f64 : DType::f32;  // f32 cannot hold the scale of the largest f64
        in.problem.method = method;
        in.x.resize(280 * size_of(dtype));
        for (std::int64_t i = 0; i < 280; ++i) write_element(in.x.data(), dtype, i, static_cast<double>(i % 9));
        write_element(in.x.data(), dtype, 139, -std::numeric_limits<double>::quiet_NaN());
        write_element(in.x.data(), dtype, 200, -HUGE_VAL);
        in.problem.non_finite = NonFinite::saturate;
        const Qparams want = run(reference(), in);
        ASSERT_TRUE(want.status.ok()) << want.status.error().str();
        for (const NamedKernel& kernel : all_kernels(Format::s8, true)) {
          in.problem.non_finite = NonFinite::reject;
          const Qparams refused = run(kernel.entry, in);
          ASSERT_EQ(refused.status.code(), Code::non_finite) << kernel.name;
          EXPECT_EQ(refused.status.error().index, 139) << kernel.name;
          in.problem.non_finite = NonFinite::saturate;
          EXPECT_TRUE(run(kernel.entry, in).same(want)) << kernel.name << lab::describe_choice(in.problem);
        }
      }
}

TEST(ChooseQparams, AScaleThatItsTypeCannotHold) {
  QparamsInput in = line({1.0F, 2.0F}, QparamsMethod::absmax);
  in.problem.dtype = DType::f64;
  in.problem.granularity = AffineGranularity::group(1);
  in.x.resize(16);
  write_element(in.x.data(), DType::f64, 0, 1.0);
  write_element(in.x.data(), DType::f64, 1, 1e300);
  for (const QparamsMethod method : {QparamsMethod::absmax, QparamsMethod::mse, QparamsMethod::percentile})
    for (const NamedKernel& kernel : all_kernels(Format::s8, true)) {
      in.problem.method = method;
      in.problem.scale_dtype = DType::f32;
      const Qparams refused = run(kernel.entry, in);
      ASSERT_EQ(refused.status.code(), Code::invalid_scale) << kernel.name;
      EXPECT_EQ(refused.status.error().index, 1) << kernel.name;
      in.problem.scale_dtype = DType::f64;
      EXPECT_EQ(run(kernel.entry, in).scales[1], 1e300 / 127.5) << kernel.name;
    }
}

// Every buffer begins one byte past an aligned address.
TEST(ChooseQparams, AnyAlignment) {
  Random random(8);
  for (const DType dtype : lab::kFloatTypes)
    for (int repetition = 0; repetition < 8; ++repetition) {
      const QparamsInput in = lab::random_qparams(random, dtype, Format::s8);
      const Problem& p = in.problem;
      const Qparams want = run(reference(), in);
      const std::int64_t count = *affine_scale_count(p.shape, p.granularity);
      std::vector<std::byte> x(in.x.size() + 1);
      std::copy(in.x.begin(), in.x.end(), x.begin() + 1);
      for (const NamedKernel& kernel : all_kernels()) {
        std::vector<std::byte> scales(static_cast<std::size_t>(count) * 8 + 1), zero_points(scales.size());
        const auto params = OpTraits<ChooseQparams>::bind(
            p, {.x = {x.data() + 1, dtype, p.shape},
                .scales = {scales.data() + 1, p.scale_dtype, {count}},
                .zero_points = {zero_points.data() + 1, DType::i32, {p.zero_points ? count : 0}}});
        ASSERT_TRUE(params.ok()) << params.error().str();
        ASSERT_TRUE(test::run_entry(kernel.entry, p, *params, 1).ok());
        for (std::int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(read_element(scales.data() + 1, p.scale_dtype, i), want.scales[static_cast<std::size_t>(i)]);
          if (!p.zero_points) continue;
          ASSERT_EQ(load_element<std::int32_t>(zero_points.data() + 1, i),
                    want.zero_points[static_cast<std::size_t>(i)]);
        }
      }
    }
}

TEST(ChooseQparams, WhatItRefuses) {
  const auto refusal = [](auto change) {
    Problem p;
    p.shape = {4, 8};
    change(p);
    const auto facts = OpTraits<ChooseQparams>::facts(p);
    return facts.ok() ? std::string("taken") : facts.error().message;
  };
  const auto has = [](const std::string& message, const char* words) {
    return message.find(words) != std::string::npos;
  };
  EXPECT_EQ(refusal([](Problem&) {}), "taken");
  EXPECT_TRUE(has(refusal([](Problem& p) { p.method = QparamsMethod::minmax; }), "minmax has zero points"));
  EXPECT_TRUE(has(refusal([](Problem& p) { p.zero_points = true; }), "absmax has no zero points"));
  EXPECT_TRUE(has(refusal([](Problem& p) { p.format = Format::u8; }), "both signs"));
  EXPECT_TRUE(has(refusal([](Problem& p) { p.q_min = -4, p.q_max = 0; }), "both signs"));
  EXPECT_TRUE(has(refusal([](Problem& p) { p.q_min = -4, p.q_max = 200; }), "do not go into s8"));
  EXPECT_TRUE(has(refusal([](Problem& p) {
                    p.method = QparamsMethod::minmax, p.zero_points = true;
                    p.q_min = p.q_max = 3;
                  }),
                  "3 is the only code"));
  for (const double percentile : {50.0, 0.0, -1.0, 100.5, std::nan("")})
    EXPECT_TRUE(has(refusal([&](Problem& p) { p.method = QparamsMethod::percentile, p.percentile = percentile; }),
                    "percentile is"));
  for (const float eps : {0.0F, -1.0F, 0x1p-127F, HUGE_VALF, std::nanf("")})
    EXPECT_TRUE(has(refusal([&](Problem& p) { p.eps = eps; }), "eps is")) << eps;
  EXPECT_TRUE(has(refusal([](Problem& p) { p.dtype = p.scale_dtype = DType::f16, p.eps = 0x1p-26F; }), "one of f16"));
  EXPECT_TRUE(has(refusal([](Problem& p) {
                    p.shape = {std::int64_t{1} << 41};
                    p.method = QparamsMethod::mse;
                  }),
                  "mse copies at most"));
  EXPECT_TRUE(has(refusal([](Problem& p) { p.granularity = AffineGranularity::group(3), p.even_groups = true; }),
                  "groups of 3"));

  Guarded<float> x(8), scales(1);
  const Problem p{.shape = {8}};
  const auto wrong = OpTraits<ChooseQparams>::bind(
      p, {.x = {x.data(), DType::f32, {8}}, .scales = {scales.data(), DType::f32, {2}}, .zero_points = {}});
  EXPECT_FALSE(wrong.ok());
  const auto aliased = OpTraits<ChooseQparams>::bind(
      p, {.x = {x.data(), DType::f32, {8}}, .scales = {x.data() + 3, DType::f32, {1}}, .zero_points = {}});
  ASSERT_FALSE(aliased.ok());
  EXPECT_NE(aliased.error().str().find("x and scales overlap"), std::string::npos) << aliased.error().str();
}

TEST(ChooseQparams, NothingIsWrittenOfNothing) {
  const auto context = Context::open();
  const Problem p{.shape = {0, 3}, .granularity = AffineGranularity::channel(1)};
  const auto plan = ChooseQparamsPlan::select(*context, p);
  ASSERT_TRUE(plan.ok());
  std::vector<float> scales(3, 7.0F);
  float x = 0;
  EXPECT_TRUE(plan->run(context->stream(), {},
                        {.x = {&x, DType::f32, {0, 3}}, .scales = {scales.data(), DType::f32, {3}}, .zero_points = {}})
                  .ok());
  EXPECT_EQ(scales, std::vector<float>(3, 7.0F));
}

TEST(ChooseQparams, WhatItPromises) {
  const auto context = Context::open();
  Problem p{.shape = {16, 64}, .dtype = DType::bf16, .format = Format::s4, .scale_dtype = DType::bf16};
  const auto plan = ChooseQparamsPlan::select(*context, p);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->id().element + plan->id().aux_element, "bf16bf16");
  EXPECT_EQ(plan->id().layout, "s4");
  EXPECT_EQ(plan->guarantee().math, "f32");
  EXPECT_EQ(plan->guarantee().accumulator, "none");
  EXPECT_TRUE(plan->guarantee().deterministic && plan->guarantee().bit_stable);
  p.method = QparamsMethod::mse;
  p.dtype = DType::f64;
  p.scale_dtype = DType::f32;
  const auto wide = ChooseQparamsPlan::select(*context, p);
  ASSERT_TRUE(wide.ok());
  EXPECT_EQ(wide->guarantee().math, "f64");
  EXPECT_EQ(wide->guarantee().accumulator, "f64");
  for (const auto method :
       {QparamsMethod::minmax, QparamsMethod::absmax, QparamsMethod::percentile, QparamsMethod::mse})
    EXPECT_EQ(*parse_qparams_method(name(method)), method);
  EXPECT_FALSE(parse_qparams_method("median").ok());
}

// PyTorch's MinMaxObserver and PerChannelMinMaxObserver (tools/golden_qparams.py): the same scales and zero points.
TEST(ChooseQparams, PyTorchsObservers) {
  if (!std::filesystem::exists(TERN_TESTS_DIR)) GTEST_SKIP() << "the source tree is not here";
  int cases = 0;
  for (const test::QparamsGolden& golden : test::read_qparams_golden(TERN_TESTS_DIR)) {
    if (golden.op != "observer") continue;
    ++cases;
    QparamsInput in{.problem = {}, .x = golden.x};
    in.problem.shape = golden.shape;
    in.problem.granularity = golden.granularity;
    in.problem.format = golden.format;
    in.problem.q_min = golden.q_min;
    in.problem.q_max = golden.q_max;
    in.problem.zero_points = !golden.symmetric;
    in.problem.method = golden.symmetric ? QparamsMethod::absmax : QparamsMethod::minmax;
    for (const NamedKernel& kernel : all_kernels(golden.format, true)) {
      const Qparams got = run(kernel.entry, in);
      ASSERT_TRUE(got.status.ok()) << got.status.error().str();
      EXPECT_EQ(got.scales, golden.scales) << kernel.name << ' ' << lab::describe_choice(in.problem);
      EXPECT_EQ(got.zero_points, golden.symmetric ? std::vector<std::int32_t>{} : golden.zero_points) << kernel.name;
    }
  }
  EXPECT_EQ(cases, 96);
}

}  // namespace
}  // namespace tern
