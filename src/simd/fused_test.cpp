// Tests the emulated fused multiply-add against the C library's.
#include "simd/fused.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "lab/weights.h"

namespace tern::simd {
namespace {

float any_float(lab::Random& random) {
  while (true) {
    const auto bits = static_cast<std::uint32_t>(random.below(std::int64_t{1} << 32));
    const auto f = std::bit_cast<float>(bits);
    if (std::isfinite(f)) return f;
  }
}

void expect_fused(float a, float b, float c) {
  const float got = fused_multiply_add(a, b, c), want = std::fma(a, b, c);
  ASSERT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(want)) << a << " * " << b << " + " << c;
}

TEST(Fused, IsRoundedOnce) {
  lab::Random random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const float a = any_float(random), b = any_float(random);
    expect_fused(a, b, any_float(random));
    // Sums that cancel, that end near a tie, and that are below the smallest normal number.
    expect_fused(a, b, -(a * b));
    expect_fused(a, b, std::ldexp(a * b, static_cast<int>(random.below(60)) - 30));
    expect_fused(std::ldexp(1.0F + static_cast<float>(random.below(1 << 23)) * 0x1p-23F, -70),
                 std::ldexp(1.0F + static_cast<float>(random.below(1 << 23)) * 0x1p-23F, -70),
                 std::ldexp(static_cast<float>(random.below(1 << 10)), -149));
    if (HasFatalFailure()) return;
  }
}

// The exact sum is a little above or below a tie. Rounding twice, to f64 and then to f32, would take it for the tie.
TEST(Fused, TellsWhatIsNearATieFromTheTie) {
  const float above = 1.0F + 0x1p-23F;
  for (const float sign : {1.0F, -1.0F})
    for (const float tiny : {0x1p-40F, -0x1p-40F, 0x1p-100F, -0x1p-100F}) {
      expect_fused(0x1p-12F, sign * 0x1p-12F, sign * above);
      expect_fused(sign * (0x1p-24F + tiny), 1.0F, sign * above);
      expect_fused(tiny, 0x1p-30F, sign * (1.0F + 0x1p-1F));
    }
  const float a = 0x1p-12F * (1.0F + 0x1p-15F), b = 0x1p-12F * (1.0F - 0x1p-15F);  // a*b = 2^-24 - 2^-54
  expect_fused(a, b, above);
  expect_fused(-a, b, -above);
  const auto twice = static_cast<float>(static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(above));
  EXPECT_NE(fused_multiply_add(a, b, above), twice);  // otherwise the input proves nothing
}

TEST(Fused, PassesOnInfinitiesAndNan) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(fused_multiply_add(inf, 2, 1), inf);
  EXPECT_EQ(fused_multiply_add(3e38F, 3e38F, 1), inf);
  EXPECT_EQ(fused_multiply_add(-3e38F, 3e38F, 1), -inf);
  EXPECT_EQ(fused_multiply_add(1, 2, -inf), -inf);
  EXPECT_TRUE(std::isnan(fused_multiply_add(inf, 1, -inf)));
}

}  // namespace
}  // namespace tern::simd
