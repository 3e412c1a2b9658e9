// Every ternary_quantize kernel, and the generic loops at every width, against the reference: bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/quantize_checks.h"

namespace tern {
namespace {

using lab::fill_weights;
using lab::Pattern;
using lab::Random;
using test::describe;
using test::expect_equal;
using test::kPairs;
using test::NamedKernel;
using test::run_quantize;
using Problem = TernaryQuantize::Problem;

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> weights(const Problem& p, Pattern pattern, Random& random) {
  std::vector<float> x(static_cast<std::size_t>(p.rows * p.k));
  fill_weights(pattern, random, x.data(), p.rows * p.k);
  return x;
}

constexpr std::int64_t kShortRows[] = {1,  2,  3,  4,  5,  7,   8,   9,   15,  16,   17,   31,
                                       32, 33, 63, 64, 65, 127, 128, 129, 130, 1023, 1024, 1025};

TEST(Quantize, EveryShapeAndGroup) {
  Random random(1);
  for (const auto [scheme, format] : kPairs)
    for (const std::int64_t k : kShortRows)
      for (const std::int64_t group : {0, -1, 1, 2, 3, 4, 5, 7, 12, 32, 100, 128, 5000}) {
        Problem p{.rows = 1 + random.below(3), .k = k, .scheme = scheme, .format = format};
        p.granularity = group == 0    ? Granularity::tensor()
                        : group == -1 ? Granularity::row()
                                      : Granularity::group(group);
        expect_equal(p, weights(p, Pattern::gaussian, random), {1});
        if (HasFatalFailure()) return;
      }
}

TEST(Quantize, EveryPattern) {
  Random random(2);
  for (const auto [scheme, format] : kPairs)
    for (const Pattern pattern : lab::kPatterns)
      for (const std::int64_t k : {5, 100, 1024, 2049, 5000})
        for (const Granularity g : {Granularity::tensor(), Granularity::row(), Granularity::group(128),
                                    Granularity::group(1000), Granularity::group(7)}) {
          const Problem p{.rows = 2, .k = k, .scheme = scheme, .granularity = g, .format = format};
          expect_equal(p, weights(p, pattern, random), {1});
          if (HasFatalFailure()) return;
        }
}

TEST(Quantize, EveryThreadCountGivesTheSameBits) {
  Random random(3);
  for (const auto [scheme, format] : kPairs) {
    const struct {
      std::int64_t rows, k;
      Granularity g;
    } cases[] = {{1, 300'001, Granularity::tensor()},      {3, 100'003, Granularity::tensor()},
                 {2, 150'000, Granularity::row()},         {600, 512, Granularity::row()},
                 {3, 100'001, Granularity::group(127)},    {64, 4096, Granularity::group(128)},
                 {2, 200'002, Granularity::group(70'001)}, {2, 200'003, Granularity::group(70'000)}};
    for (const auto& c : cases) {
      const Problem p{.rows = c.rows, .k = c.k, .scheme = scheme, .granularity = c.g, .format = format};
      expect_equal(p, weights(p, c.g.kind == Granularity::Kind::tensor ? Pattern::order : Pattern::gaussian, random),
                   scheme == Scheme::absmean ? std::vector{1, 2, 3, 5, 9} : std::vector{1, 3, 9});
      if (HasFatalFailure()) return;
    }
  }
}

// The inputs of docs/numerics.md that reveal a wrong order of sums. 1024 + 2^-14 is half way between two means. One
// 2^-45 is too small to move it; several that are summed first are not.
TEST(Quantize, TheOrderOfSumsIsTheContracts) {
  const Problem p{.rows = 1, .k = 1024, .format = Format::i2};
  const auto scales_are = [&](const std::vector<float>& x, float want) {
    EXPECT_EQ(run_quantize(test::quantize_reference(p.format), p, x).scales[0], want);
    for (const NamedKernel& kernel : test::all_quantize_kernels(p.format))
      EXPECT_EQ(run_quantize(kernel.entry, p, x).scales[0], want) << kernel.name;
  };
  const float above = std::nextafter(1.0F, 2.0F);
  // Small values in every lane: the other lanes sum theirs before they meet the large one. A plain loop loses them.
  std::vector<float> x(1024, 0x1p-45F);
  x[0] = 1024.0F;
  x[1] = 0x1p-14F;
  scales_are(x, above);
  double plain = 0;
  for (const float v : x) plain += static_cast<double>(v);
  EXPECT_EQ(static_cast<float>(plain / 1024), 1.0F);
  // Small values in the lane of the large one only: ascending quads lose each of them, descending ones would not.
  for (std::size_t i = 2; i < x.size(); ++i) x[i] = i % 128 < 4 ? 0x1p-45F : 0.0F;
  scales_are(x, 1.0F);
  // The large one in the lane's last quad: by then the small ones are summed.
  std::swap(x[0], x[1020 - 124]);
  std::swap(x[1], x[1021 - 124]);
  scales_are(x, above);

  Random random(4);
  for (const std::int64_t k : {1024, 1025, 2048, 3000, 5 * 1024, 7 * 1024 + 3, 70'000})
    for (int permutation = 0; permutation < 4; ++permutation) {
      const Problem longer{.rows = 1, .k = k, .format = Format::i2};
      expect_equal(longer, weights(longer, Pattern::order, random), {1, 2});
    }
}

TEST(Quantize, CodesAreTheRoundedQuotient) {
  Random random(5);
  for (int i = 0; i < 200; ++i) {
    // One value sets the absmax scale; the others are at its thresholds and next to them.
    const float s = std::ldexp(1.0F + static_cast<float>(random.below(1 << 23)) * 0x1p-23F,
                               static_cast<int>(random.below(60)) - 20);
    std::vector<float> x = {s};
    for (float h : {s / 2, -s / 2})
      for (int step = 0; step < 3; ++step, h = std::nextafter(h, 2 * h))
        x.insert(x.end(), {h, std::nextafter(h, 0.0F)});
    const Problem p{
        .rows = 1, .k = static_cast<std::int64_t>(x.size()), .scheme = Scheme::absmax, .format = Format::i8};
    for (const NamedKernel& kernel : test::all_quantize_kernels(p.format)) {
      const auto got = run_quantize(kernel.entry, p, x);
      ASSERT_EQ(got.scales[0], s);
      for (std::size_t j = 0; j < x.size(); ++j)
        ASSERT_EQ(static_cast<std::int8_t>(got.codes[j]),
                  static_cast<int>(std::fmin(std::fmax(std::nearbyint(x[j] / s), -1.0F), 1.0F)))
            << kernel.name << ' ' << x[j] << " / " << s;
    }
  }
}

TEST(Quantize, Int2TakesAGivenScale) {
  const std::vector<float> x = {-9.0F, -2.0F, -1.5F, -1.0F, -0.5F, -0.0F, 0.5F, 0.75F, 1.0F, 1.5F, 9.0F};
  const std::vector<int> want = {-2, -2, -2, -1, 0, 0, 0, 1, 1, 1, 1};
  Problem p{.rows = 1, .k = 11, .scheme = Scheme::int2, .format = Format::i8, .scale_given = true};
  for (const NamedKernel& kernel : test::all_quantize_kernels(p.format)) {
    const auto got = run_quantize(kernel.entry, p, x, 1, {1.0F});
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(static_cast<std::int8_t>(got.codes[i]), want[i]) << kernel.name << ' ' << x[i];
    EXPECT_EQ(got.scales[0], 1.0F);
  }
  Random random(6);
  for (const Format format : {Format::s2, Format::i8})
    for (const std::int64_t group : {3, 8, 128}) {
      p = {.rows = 3,
           .k = 1000,
           .scheme = Scheme::int2,
           .granularity = Granularity::group(group),
           .format = format,
           .scale_given = true};
      std::vector<float> given(static_cast<std::size_t>(make_ranges(3, 1000, p.granularity).total));
      for (float& s : given) s = 0.01F + std::fabs(random.gaussian());
      expect_equal(p, weights(p, Pattern::gaussian, random), {1, 3}, given);
      expect_equal(p, weights(p, Pattern::gaussian, random), {1}, {0.3F});
    }
}

TEST(Quantize, TheFirstNonFiniteValueIsNamed) {
  Random random(7);
  for (const auto [scheme, format] : kPairs)
    for (const std::int64_t k : {1, 3, 33, 130, 1500})
      for (const float bad : {std::nanf(""), -std::nanf(""), kInf, -kInf})
        for (const Granularity g : {Granularity::tensor(), Granularity::row(), Granularity::group(32)}) {
          const Problem p{.rows = 3, .k = k, .scheme = scheme, .granularity = g, .format = format};
          auto x = weights(p, Pattern::gaussian, random);
          const auto n = static_cast<std::int64_t>(x.size());
          const std::int64_t first = random.below(n);
          x[static_cast<std::size_t>(first)] = bad;
          x[static_cast<std::size_t>(first + random.below(n - first))] = bad;
          for (const NamedKernel& kernel : test::all_quantize_kernels(format)) {
            const auto got = run_quantize(kernel.entry, p, x);
            ASSERT_EQ(got.status.code(), Code::non_finite) << kernel.name << ' ' << describe(p);
            ASSERT_EQ(got.status.error().index, first) << kernel.name << ' ' << describe(p);
          }
          expect_equal(p, x, {1});
          if (HasFatalFailure()) return;
        }
}

TEST(Quantize, TheFirstNonFiniteValueIsNamedWithThreads) {
  Random random(8);
  for (const Granularity g :
       {Granularity::tensor(), Granularity::row(), Granularity::group(128), Granularity::group(99)})
    for (int repetition = 0; repetition < 10; ++repetition) {
      const Problem p{.rows = 8, .k = 50'000, .granularity = g, .format = Format::i2};
      auto x = weights(p, Pattern::gaussian, random);
      for (int i = 0; i < 20; ++i) x[static_cast<std::size_t>(random.below(400'000))] = std::nanf("");
      expect_equal(p, x, {1, 4, 9});
    }
}

TEST(Quantize, SaturateReadsNanAsZeroAndInfinityAsTheLargestValue) {
  Random random(9);
  for (const auto [scheme, format] : kPairs)
    for (const std::int64_t k : {1, 7, 128, 1030, 5000})
      for (const Granularity g :
           {Granularity::tensor(), Granularity::row(), Granularity::group(32), Granularity::group(7)}) {
        Problem p{.rows = 2, .k = k, .scheme = scheme, .granularity = g, .format = format};
        p.non_finite = NonFinite::saturate;
        auto x = weights(p, Pattern::gaussian, random);
        auto cleaned = x;
        for (int i = 0; i < 5; ++i) {
          const auto at = static_cast<std::size_t>(random.below(2 * k));
          const std::int64_t kind = random.below(3);
          x[at] = kind == 0 ? std::nanf("") : kind == 1 ? kInf : -kInf;
          cleaned[at] = kind == 0 ? 0.0F : std::copysign(std::numeric_limits<float>::max(), x[at]);
        }
        expect_equal(p, x, {1, 3});
        const auto reference = test::quantize_reference(format);
        ASSERT_TRUE(test::same_bits(run_quantize(reference, p, x), run_quantize(reference, p, cleaned))) << describe(p);
        if (HasFatalFailure()) return;
      }
}

TEST(Quantize, SaturateWithThreads) {
  Random random(10);
  for (const auto [scheme, format] : kPairs)
    for (const Granularity g : {Granularity::tensor(), Granularity::row(), Granularity::group(99)}) {
      Problem p{.rows = 2, .k = 100'002, .scheme = scheme, .granularity = g, .format = format};
      p.non_finite = NonFinite::saturate;
      auto x = weights(p, Pattern::gaussian, random);
      for (int i = 0; i < 50; ++i)
        x[static_cast<std::size_t>(random.below(200'004))] = i % 2 == 0 ? kInf : std::nanf("");
      expect_equal(p, x, {1, 4});
      if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace tern
