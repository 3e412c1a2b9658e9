// Compares every ternary_quantize kernel, and the generic loops at every width, with the reference: bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "lab/weights.h"
#include "ops/ternary_quantize/generic.h"
#include "tests/support/quantize_runner.h"

namespace tern::test {

struct SchemeFormat {
  Scheme scheme;
  Format format;
};
inline constexpr SchemeFormat kPairs[] = {
    {Scheme::absmean, Format::i2}, {Scheme::absmean, Format::i8}, {Scheme::absmax, Format::i2},
    {Scheme::absmax, Format::i8},  {Scheme::mse, Format::i2},     {Scheme::mse, Format::i8},
    {Scheme::int2, Format::s2},    {Scheme::int2, Format::i8},    {Scheme::absmean, Format::b3},
    {Scheme::absmax, Format::b3},  {Scheme::mse, Format::b3}};

inline std::vector<NamedKernel> all_quantize_kernels(Format format) {
  return kernels_and_loops<ternary_quantize::Loops>("ternary_quantize", format);
}

inline KernelEntry quantize_reference(Format format) { return reference_kernel("ternary_quantize", format); }

template <class T>
void expect_equal(const TernaryQuantize::Problem& p, const std::vector<T>& x, const std::vector<int>& threads,
                  const std::vector<float>& given = {}) {
  const auto want = run_quantize(quantize_reference(p.format), p, x, 1, given);
  for (const NamedKernel& kernel : all_quantize_kernels(p.format))
    for (const int t : threads) {
      if (t > 1 && kernel.name.starts_with("emulated")) continue;  // the driver's threads do not depend on the loops
      const auto got = run_quantize(kernel.entry, p, x, t, given);
      ASSERT_EQ(got.status.code(), want.status.code()) << kernel.name << ' ' << describe(p);
      if (!want.status.ok()) {
        ASSERT_EQ(got.status.error().index, want.status.error().index) << kernel.name << ' ' << describe(p);
        ASSERT_TRUE(kernel.on_gpu || got.status.error().message == want.status.error().message) << kernel.name;
      } else {
        ASSERT_TRUE(same_bits(got, want)) << kernel.name << ' ' << describe(p) << " threads " << t;
      }
    }
}

}  // namespace tern::test
