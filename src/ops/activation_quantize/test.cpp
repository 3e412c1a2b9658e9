// Every activation_quantize kernel, and the loops at every width, against the reference: bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/activation_quantize/activation_quantize.h"
#include "ops/activation_quantize/generic.h"
#include "simd/emulated.h"
#include "tests/support/linear_runner.h"

namespace tern {
namespace {

using test::GuardedRows;
using test::NamedKernel;
using test::Random;
using Problem = ActivationQuantize::Problem;

std::vector<NamedKernel> all_kernels() {
  return test::kernels_and_loops<activation_quantize::Loops>("activation_quantize", Format::i8);
}

struct Quantized {
  Status status;
  std::vector<std::byte> q;
  std::vector<float> scales;
  std::vector<std::int32_t> sums;
};

Quantized run(const KernelEntry& entry, const Problem& p, const std::vector<float>& x, std::int64_t gap = 0,
              int threads = 1) {
  GuardedRows in(p.dtype, p.m, p.k, gap), q(DType::i8, p.m, p.k, gap);
  for (std::int64_t m = 0; m < p.m; ++m)
    for (std::int64_t i = 0; i < p.k; ++i) test::put(in.at(m, i), p.dtype, x[static_cast<std::size_t>(m * p.k + i)]);
  Quantized out;
  out.scales.resize(static_cast<std::size_t>(p.m));
  out.sums.resize(static_cast<std::size_t>(p.m));
  const auto params = OpTraits<ActivationQuantize>::bind(p, {.x = in.view(),
                                                             .q = q.view(),
                                                             .scales = {out.scales.data(), DType::f32, {p.m}},
                                                             .sums = {out.sums.data(), DType::i32, {p.m}}});
  EXPECT_TRUE(params.ok()) << params.error().str();
  out.status = test::run_entry(entry, p, *params, threads);
  out.q = q.elements();
  return out;
}

KernelEntry reference() { return test::reference_kernel("activation_quantize", Format::i8); }

TEST(ActivationQuantize, EverySizeTypeAndPattern) {
  Random random(1);
  const auto kernels = all_kernels();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const lab::Pattern pattern : lab::kPatterns)
      for (const std::int64_t k : {1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300, 2560}) {
        const Problem p{.m = 1 + random.below(4), .k = k, .dtype = dtype};
        std::vector<float> x(static_cast<std::size_t>(p.m * k));
        lab::fill_weights(pattern, random, x.data(), p.m * k);
        if (dtype == DType::f16)
          for (float& v : x) v = std::fmin(std::fmax(v, -65504.0F), 65504.0F);
        const auto want = run(reference(), p, x);
        ASSERT_TRUE(want.status.ok()) << want.status.error().str();
        for (const NamedKernel& kernel : kernels) {
          const auto got = run(kernel.entry, p, x, random.below(3));
          ASSERT_TRUE(got.status.ok());
          ASSERT_EQ(got.q, want.q) << kernel.name << ' ' << k << ' ' << name(dtype) << ' ' << name(pattern);
          ASSERT_EQ(got.sums, want.sums) << kernel.name;
          ASSERT_EQ(std::memcmp(got.scales.data(), want.scales.data(), 4 * want.scales.size()), 0) << kernel.name;
        }
      }
}

// Ties round to the even integer; 127 is the largest code.
TEST(ActivationQuantize, TiesToEven) {
  const std::vector<float> x = {127.0F, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, -127.0F, 126.5F, 1e-9F, -0.0F};
  const std::vector<int> q = {127, 0, 2, 2, 0, -2, -2, -127, 126, 0, 0};
  const Problem p{.m = 1, .k = 11};
  for (const NamedKernel& kernel : all_kernels()) {
    const auto got = run(kernel.entry, p, x);
    for (std::size_t i = 0; i < q.size(); ++i)
      EXPECT_EQ(static_cast<std::int8_t>(got.q[i]), q[i]) << kernel.name << " element " << i;
    EXPECT_EQ(got.scales[0], 1.0F);
    EXPECT_EQ(got.sums[0], 126);
  }
}

// Tokens of zeros, and tokens below the floor of 1e-5.
TEST(ActivationQuantize, SmallTokens) {
  for (const float v : {0.0F, 1e-6F, 1e-40F}) {
    const Problem p{.m = 1, .k = 40};
    const std::vector<float> x(40, v);
    const auto want = run(reference(), p, x);
    EXPECT_EQ(want.scales[0], 127.0F / 1e-5F);
    for (const NamedKernel& kernel : all_kernels()) EXPECT_EQ(run(kernel.entry, p, x).q, want.q) << kernel.name;
  }
}

TEST(ActivationQuantize, Threads) {
  Random random(2);
  const Problem p{.m = 200, .k = 1000};
  std::vector<float> x(200'000);
  lab::fill_weights(lab::Pattern::gaussian, random, x.data(), 200'000);
  const auto want = run(reference(), p, x);
  for (const NamedKernel& kernel : all_kernels())
    for (const int threads : {1, 2, 5}) ASSERT_EQ(run(kernel.entry, p, x, 0, threads).q, want.q) << kernel.name;
}

TEST(ActivationQuantize, NonFiniteIsNamedOrSaturated) {
  Random random(3);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    Problem p{.m = 4, .k = 70, .dtype = dtype};
    std::vector<float> x(280);
    lab::fill_weights(lab::Pattern::gaussian, random, x.data(), 280);
    x[200] = -std::numeric_limits<float>::infinity();
    x[139] = std::numeric_limits<float>::quiet_NaN();
    for (const NamedKernel& kernel : all_kernels()) {
      const auto refused = run(kernel.entry, p, x);
      ASSERT_EQ(refused.status.code(), Code::non_finite) << kernel.name;
      EXPECT_EQ(refused.status.error().index, 139) << kernel.name;
    }
    p.non_finite = NonFinite::saturate;
    const auto want = run(reference(), p, x);
    ASSERT_TRUE(want.status.ok());
    EXPECT_EQ(static_cast<std::int8_t>(want.q[139]), 0);
    EXPECT_EQ(static_cast<std::int8_t>(want.q[200]), -127);
    for (const NamedKernel& kernel : all_kernels()) {
      const auto got = run(kernel.entry, p, x);
      EXPECT_EQ(got.q, want.q) << kernel.name;
      EXPECT_EQ(std::memcmp(got.scales.data(), want.scales.data(), 16), 0) << kernel.name;
    }
  }
}

// Every f16 and bf16 comes back from widening and rounding; an f32 midway between two of them rounds to the even one.
TEST(Half, EveryValueAndEveryMiddle) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const auto half = static_cast<std::uint16_t>(h);
    const float f = half::from_f16(half), b = half::from_bf16(half);
    if (std::isnan(f))
      EXPECT_TRUE(std::isnan(half::from_f16(half::to_f16(f))));
    else
      ASSERT_EQ(half::to_f16(f), half);
    if (std::isnan(b))
      EXPECT_TRUE(std::isnan(half::from_bf16(half::to_bf16(b))));
    else
      ASSERT_EQ(half::to_bf16(b), half);
    if ((h & 0x7FFF) >= 0x7BFF) continue;
    const auto next = static_cast<std::uint16_t>(h + 1);
    const auto even = (h & 1) == 0 ? half : next;
    const float middle = (f + half::from_f16(next)) / 2;  // exact in f32
    ASSERT_EQ(half::to_f16(middle), even) << h;
    ASSERT_EQ(half::to_f16(std::nextafter(middle, f)), half);
    ASSERT_EQ(half::to_f16(std::nextafter(middle, half::from_f16(next))), next);
    const auto bits = (h << 16) | 0x8000U;  // halfway to the next bf16
    ASSERT_EQ(half::to_bf16(__builtin_bit_cast(float, bits)), even);
    ASSERT_EQ(half::to_bf16(__builtin_bit_cast(float, bits - 1)), half);
    ASSERT_EQ(half::to_bf16(__builtin_bit_cast(float, bits + 1)), next);
  }
  EXPECT_EQ(half::to_f16(65519.996F), 0x7BFF);
  EXPECT_EQ(half::to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(half::to_bf16(std::numeric_limits<float>::max()), 0x7F80);
}

}  // namespace
}  // namespace tern
