// ternary_quantize of f16, bf16 and f64: every kernel against the reference, every half, and results that need f64.
#include <limits>

#include "tests/support/quantize_checks.h"

namespace tern {
namespace {

using lab::Pattern;
using lab::Random;
using test::describe;
using test::expect_equal;
using test::kPairs;
using test::NamedKernel;
using test::run_quantize;
using Problem = TernaryQuantize::Problem;

constexpr DType kDtypes[] = {DType::f64, DType::f16, DType::bf16};
constexpr double kDoubleInf = std::numeric_limits<double>::infinity();

// Finite values of the type; those of f64 have bits that f32 does not.
std::vector<double> weights_of(const Problem& p, Pattern pattern, Random& random) {
  std::vector<float> floats(static_cast<std::size_t>(p.rows * p.k));
  lab::fill_weights(pattern, random, floats.data(), p.rows * p.k);
  std::vector<double> x(floats.begin(), floats.end());
  for (double& v : x) {
    if (p.dtype == DType::f64) {
      if (pattern == Pattern::gaussian || pattern == Pattern::outlier) v += v * 0x1p-30 * (0.1 + random.gaussian());
      if (pattern == Pattern::denormal) v = std::ldexp(v, -900);
      continue;
    }
    std::byte bytes[8];
    write_element(bytes, p.dtype, 0, v);
    v = saturated(read_element(bytes, p.dtype, 0), p.dtype);
  }
  return x;
}

std::vector<Granularity> granularities() {
  return {Granularity::tensor(),   Granularity::row(),      Granularity::group(1),   Granularity::group(3),
          Granularity::group(7),   Granularity::group(32),  Granularity::group(100), Granularity::group(128),
          Granularity::group(512), Granularity::group(1000)};
}

TEST(QuantizeDtypes, EveryShapeAndGroup) {
  Random random(1);
  for (const DType dtype : kDtypes)
    for (const auto [scheme, format] : kPairs)
      for (const std::int64_t k : {0, 1, 3, 7, 31, 33, 64, 129, 1023, 1024, 1025, 2049})
        for (const Granularity g : granularities()) {
          const Problem p{.rows = 1 + random.below(3),
                          .k = k,
                          .dtype = dtype,
                          .scheme = scheme,
                          .granularity = g,
                          .format = format};
          expect_equal(p, weights_of(p, Pattern::gaussian, random), {1});
          if (HasFatalFailure()) return;
        }
}

TEST(QuantizeDtypes, EveryPatternPolicyAndThreadCount) {
  Random random(2);
  for (const DType dtype : kDtypes)
    for (const auto [scheme, format] : kPairs)
      for (const Pattern pattern : lab::kPatterns)
        for (const Granularity g :
             {Granularity::tensor(), Granularity::row(), Granularity::group(128), Granularity::group(7)})
          for (const NonFinite policy : {NonFinite::reject, NonFinite::saturate}) {
            Problem p{.rows = 3, .k = 1100, .dtype = dtype, .scheme = scheme, .granularity = g, .format = format};
            p.non_finite = policy;
            auto x = weights_of(p, pattern, random);
            if (policy == NonFinite::saturate) {
              x[static_cast<std::size_t>(random.below(3300))] = std::nan("");
              if (random.below(2) == 0) x[static_cast<std::size_t>(random.below(3300))] = -kDoubleInf;  // f64: an error
            }
            expect_equal(p, x, {1});
            if (HasFatalFailure()) return;
          }
  for (const DType dtype : kDtypes)
    for (const auto [scheme, format] : kPairs)
      for (const Granularity g : {Granularity::tensor(), Granularity::row(), Granularity::group(999)}) {
        if (format == Format::i8) continue;  // pieces of packed codes could share bytes; those of i8 cannot
        const Problem p{.rows = 2, .k = 70'001, .dtype = dtype, .scheme = scheme, .granularity = g, .format = format};
        auto x = weights_of(p, Pattern::order, random);
        expect_equal(p, x, {1, 2, 5});
        for (int i = 0; i < 5; ++i) x[static_cast<std::size_t>(random.below(140'002))] = std::nan("");
        expect_equal(p, x, {1, 4});  // must name the same first index
        if (HasFatalFailure()) return;
      }
}

// The code of x by plain arithmetic with the stored scale.
template <class T>
int plain_code(double x, float s, Scheme scheme) {
  const T q = static_cast<T>(x) / static_cast<T>(s);
  if (scheme == Scheme::int2) return static_cast<int>(std::nearbyint(std::fmin(std::fmax(q, T{-2}), T{1})));
  return 2 * std::fabs(x) > static_cast<double>(s) ? (x > 0 ? 1 : -1) : 0;
}

// All 65,536 patterns of a half, in groups of several sizes (so with several scales) and with given scales.
TEST(QuantizeDtypes, EveryHalf) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    std::vector<double> all, finite;
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      all.push_back(read_element(&half, dtype, 0));
      if (std::isfinite(all.back())) finite.push_back(all.back());
    }
    ASSERT_EQ(finite.size(), dtype == DType::f16 ? 63488U : 65280U);
    for (const auto [scheme, format] : kPairs)
      for (const Granularity g : {Granularity::tensor(), Granularity::group(256), Granularity::group(99)})
        for (const float given : {0.0F, 1e-30F, 0x1p-20F, 0.3F, 1.0F, 777.0F, 3e38F}) {
          if (given > 0 && (scheme != Scheme::int2 || g != Granularity::tensor())) continue;
          const std::vector<float> scale = given > 0 ? std::vector<float>{given} : std::vector<float>{};
          for (const NonFinite policy : {NonFinite::reject, NonFinite::saturate}) {
            const auto& x = policy == NonFinite::reject ? finite : all;
            Problem p{.rows = 1, .dtype = dtype, .scheme = scheme, .granularity = g, .format = format};
            p.k = static_cast<std::int64_t>(x.size());
            p.non_finite = policy;
            p.scale_given = given > 0;
            expect_equal(p, x, {1}, scale);
            if (HasFatalFailure()) return;
            const auto want = run_quantize(test::quantize_reference(format), p, x, 1, scale);
            const std::int64_t len = make_ranges(1, p.k, g).len;
            for (std::int64_t i = 0; i < p.k; ++i)
              ASSERT_EQ(read_code(format, want.codes.data(), i),
                        plain_code<float>(saturated(x[static_cast<std::size_t>(i)], dtype),
                                          want.scales[static_cast<std::size_t>(i / len)], scheme))
                  << describe(p) << ' ' << x[static_cast<std::size_t>(i)];
          }
        }
  }
}

TEST(QuantizeDtypes, EveryHalfThatIsNotFiniteIsRefused) {
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const NamedKernel& kernel : test::all_quantize_kernels(Format::i2)) {
      std::vector<std::uint16_t> x(37, 0x3C00);
      const Problem p{.rows = 1, .k = 37, .dtype = dtype, .format = Format::i2};
      std::vector<std::uint8_t> codes(10);
      float scale = 0;
      const auto params = OpTraits<TernaryQuantize>::bind(p, {.x = {x.data(), dtype, {1, 37}},
                                                              .codes = {codes.data(), DType::u8, {1, 10}},
                                                              .scales = {&scale, DType::f32, {1}},
                                                              .given_scale = {}});
      ASSERT_TRUE(params.ok());
      for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        x[20] = static_cast<std::uint16_t>(bits);
        if (std::isfinite(read_element(&x[20], dtype, 0))) continue;
        const Status status = test::run_entry(kernel.entry, p, *params, 1);
        ASSERT_EQ(status.code(), Code::non_finite) << kernel.name << ' ' << bits;
        ASSERT_EQ(status.error().index, 20) << kernel.name << ' ' << bits;
      }
    }
}

TEST(QuantizeDtypes, SaturateTakesTheLargestValueOfTheType) {
  for (const auto& [dtype, largest] : {std::pair{DType::f16, 65504.0F}, {DType::bf16, 0x1.FEp127F}}) {
    Problem p{.rows = 1, .k = 3, .dtype = dtype, .scheme = Scheme::absmax, .format = Format::i8};
    p.non_finite = NonFinite::saturate;
    for (const NamedKernel& kernel : test::all_quantize_kernels(p.format)) {
      const auto got = run_quantize(kernel.entry, p, std::vector<double>{-kDoubleInf, std::nan(""), 1.0});
      ASSERT_TRUE(got.status.ok());
      EXPECT_EQ(got.scales[0], largest) << kernel.name;
      EXPECT_EQ(got.codes, (std::vector<std::uint8_t>{0xFF, 0, 0})) << kernel.name;
    }
  }
}

// ---- f64 ----

struct Coded {
  float scale;
  std::vector<int> codes;
};
// Expects this scale and these codes from every kernel, for one row of f64.
void expect_codes(Scheme scheme, const std::vector<double>& x, const Coded& want,
                  const std::vector<float>& given = {}) {
  Problem p{.rows = 1, .dtype = DType::f64, .scheme = scheme, .format = Format::i8};
  p.k = static_cast<std::int64_t>(x.size());
  p.scale_given = !given.empty();
  auto kernels = test::all_quantize_kernels(p.format);
  kernels.push_back({"reference", test::quantize_reference(p.format)});
  for (const NamedKernel& kernel : kernels) {
    const auto got = run_quantize(kernel.entry, p, x, 1, given);
    ASSERT_TRUE(got.status.ok()) << got.status.error().str();
    EXPECT_EQ(got.scales[0], want.scale) << kernel.name;
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(static_cast<std::int8_t>(got.codes[i]), want.codes[i]) << kernel.name << ' ' << i;
  }
}

TEST(QuantizeF64, TheThresholdIsExactToTheLastBit) {
  const double above = std::nextafter(0.5, 1.0), below = std::nextafter(0.5, 0.0);
  expect_codes(Scheme::absmax, {1.0, 0.5, above, below, -0.5, -above, -below}, {1.0F, {1, 0, 1, 0, 0, -1, 0}});
  // Codes compare with the scale as stored: 1 + 2^-40 is stored as 1, and 1 + 2^-24 + 2^-40 as 1 + 2^-23.
  expect_codes(Scheme::absmax, {1.0 + 0x1p-40, 0.5, above}, {1.0F, {1, 0, 1}});
  expect_codes(Scheme::absmax,
               {1.0 + 0x1p-24 + 0x1p-40, 0.5 + 0x1p-25, 0.5 + 0x1p-24, std::nextafter(0.5 + 0x1p-24, 1.0)},
               {1.0F + 0x1p-23F, {1, 0, 0, 1}});
}

TEST(QuantizeF64, Int2DividesInF64) {
  // Rounded to f32, the neighbours of 0.5 and 1.5 would be ties.
  expect_codes(Scheme::int2,
               {0.5, std::nextafter(0.5, 1.0), -0.5, std::nextafter(-0.5, -1.0), -1.5, std::nextafter(-1.5, 0.0), -0.0,
                1e300, -1e300},
               {1.0F, {0, 1, 0, -1, -2, -1, 0, 1, -2}}, {1.0F});
}

TEST(QuantizeF64, DenormalsAndMinusZero) {
  const double tiny = std::numeric_limits<double>::denorm_min();
  for (const Scheme scheme : {Scheme::absmax, Scheme::int2})
    expect_codes(scheme, {tiny, -tiny, -0.0, 0.0}, {1e-8F, {0, 0, 0, 0}});
  for (const Scheme scheme : {Scheme::absmean, Scheme::mse})
    expect_codes(scheme, {tiny, -tiny, -0.0, 0.0}, {1e-5F, {0, 0, 0, 0}});
  // The floors are those of f32, widened.
  const double half = static_cast<double>(1e-8F) / 2;
  expect_codes(Scheme::absmax, {half, std::nextafter(half, 1.0), -half}, {1e-8F, {0, 1, 0}});
}

// mse iterates in f64. 2c is between s0 and s0 rounded to f32. In f64 every element is above s0/2, so s0 is final; a
// rounded s0 would leave c out, and the next scale would be a.
TEST(QuantizeF64, MseIteratesInF64) {
  int found = 0;
  for (int i = 0; i < 1000; ++i) {
    const double a = 1.0 + 0.001 * i, c = 3.0 * a / 7.0 * (1.0 + 1e-12);
    const double s0 = ((a + a) + (a + c)) / 4.0;
    const auto rounded = static_cast<float>(s0);
    if (!(2 * c > s0 && 2 * c < static_cast<double>(rounded))) continue;
    ++found;
    expect_codes(Scheme::mse, {a, a, -a, c}, {rounded, {1, 1, -1, 0}});
  }
  EXPECT_GT(found, 100);
}

TEST(QuantizeF64, TheOrderOfSums) {
  std::vector<double> x(1024, 0x1p-45);
  x[0] = 1024.0;
  x[1] = 0x1p-14;
  const auto scale = [&] {
    const Problem p{.rows = 1, .k = 1024, .dtype = DType::f64, .format = Format::i2};
    std::vector<float> scales;
    for (const NamedKernel& kernel : test::all_quantize_kernels(p.format))
      scales.push_back(run_quantize(kernel.entry, p, x).scales[0]);
    for (const float s : scales) EXPECT_EQ(s, scales[0]);
    return scales[0];
  };
  const float above = std::nextafter(1.0F, 2.0F);
  EXPECT_EQ(scale(), above);
  for (std::size_t i = 2; i < x.size(); ++i) x[i] = i % 128 < 4 ? 0x1p-45 : 0.0;
  EXPECT_EQ(scale(), 1.0F);
  std::swap(x[0], x[1020 - 124]);
  std::swap(x[1], x[1021 - 124]);
  EXPECT_EQ(scale(), above);
}

TEST(QuantizeF64, AScaleBeyondF32IsAnErrorThatNamesItsRange) {
  const double largest = std::numeric_limits<float>::max(), step = 0x1p104;  // from one f32 to the next
  const auto refused = [](const Problem& p, const std::vector<double>& x, std::int64_t range, const std::string& part) {
    expect_equal(p, x, {1, 3});
    const auto got = run_quantize(test::quantize_reference(p.format), p, x);
    EXPECT_EQ(got.status.code(), Code::invalid_scale);
    EXPECT_EQ(got.status.error().index, range);
    EXPECT_NE(got.status.error().message.find(part), std::string::npos) << got.status.error().message;
  };
  Problem p{.rows = 3, .k = 8, .dtype = DType::f64, .scheme = Scheme::absmax, .format = Format::i2};
  std::vector<double> x(24, 1.0);
  x[19] = 1e39;
  refused(p, x, 0, "the scale of the tensor is 1e+39, and the largest f32 is 3.40282e+38");
  p.granularity = Granularity::row();
  refused(p, x, 2, "the scale of row 2 is 1e+39");
  p.granularity = Granularity::group(3);
  refused(p, x, 7, "the scale of group 1 of row 2 is 1e+39");
  x[9] = -1e300;
  refused(p, x, 3, "the scale of group 0 of row 1 is 1e+300");
  for (const auto [scheme, format] : kPairs) {
    p.scheme = scheme;
    p.format = format;
    refused(p, x, 3, "group 0 of row 1");
  }
  // A value that is not finite is named first, wherever it is.
  x[23] = std::nan("");
  expect_equal(p, x, {1, 3});
  EXPECT_EQ(run_quantize(test::quantize_reference(p.format), p, x).status.code(), Code::non_finite);
  p.non_finite = NonFinite::saturate;
  refused(p, x, 3, "group 0 of row 1");
  // An infinity saturates to the largest f64.
  x.assign(24, 1.0);
  x[4] = kDoubleInf;
  refused(p, x, 1, "the scale of group 1 of row 0 is 1.79769e+308");
  // Sums that overflow f64 though their elements are finite.
  p = {.rows = 2, .k = 3000, .dtype = DType::f64, .granularity = Granularity::row(), .format = Format::i2};
  x.assign(6000, 1e307);
  refused(p, x, 0, "the scale of row 0 is inf");
  p.scheme = Scheme::mse;
  refused(p, x, 0, "the scale of row 0 is inf");
  // A scale less than half a step above the largest f32 rounds down to it.
  expect_codes(Scheme::absmax, {std::nextafter(largest + step / 2, 0.0), 0.0},
               {std::numeric_limits<float>::max(), {1, 0}});
  p = {.rows = 1, .k = 2, .dtype = DType::f64, .scheme = Scheme::absmax, .format = Format::i2};
  refused(p, {largest + step / 2, 0.0}, 0, "the scale of the tensor is 3.40282e+38");
}

TEST(QuantizeF64, CodesAreThoseOfPlainArithmetic) {
  Random random(7);
  for (const auto [scheme, format] : kPairs)
    for (int repetition = 0; repetition < 20; ++repetition) {
      Problem p{.rows = 2, .k = 1111, .dtype = DType::f64, .scheme = scheme, .format = format};
      p.granularity = Granularity::group(100);
      const auto x = weights_of(p, Pattern::gaussian, random);
      for (const NamedKernel& kernel : test::all_quantize_kernels(format)) {
        const auto got = run_quantize(kernel.entry, p, x);
        for (std::int64_t i = 0; i < 2222; ++i)
          ASSERT_EQ(read_code(format, got.codes.data() + i / 1111 * row_bytes(format, 1111), i % 1111),
                    plain_code<double>(x[static_cast<std::size_t>(i)],
                                       got.scales[static_cast<std::size_t>(i / 1111 * 12 + i % 1111 / 100)], scheme))
              << kernel.name << ' ' << i;
      }
    }
}

}  // namespace
}  // namespace tern
