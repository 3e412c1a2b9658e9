// Checks a linear kernel against the truth, which is computed from canonical codes: equal bits where the contract
// defines them, else within the stated bound of float64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lab/linear_truth.h"
#include "tests/support/linear_runner.h"

namespace tern::test {

inline constexpr std::int64_t kSmallDims[] = {1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 127, 128};

inline KernelEntry linear_reference() { return reference_kernel("linear", Format::i2); }

// Every output type with every epilogue that it allows.
inline std::vector<Linear::Matrix> all_epilogues() {
  std::vector<Linear::Matrix> all = {{.y_dtype = DType::i32}};
  for (const DType y : {DType::f32, DType::f16, DType::bf16})
    for (int bits = 0; bits < 8; ++bits)
      all.push_back({.y_dtype = y,
                     .bias = (bits & 1) != 0,
                     .activation = (bits & 2) != 0 ? Activation::squared_relu : Activation::none,
                     .residual = (bits & 4) != 0});
  return all;
}

inline lab::LinearTruth truth_for(const LinearCase& c) {
  return {c.problem, c.m, c.x_bytes.data(), c.x_floats.data(), c.x_scales.data()};
}
inline lab::TruthMatrix truth_matrix(const LinearCase& c, std::size_t i) {
  return {.spec = c.problem.matrices[i],
          .codes = c.codes[i].data(),
          .scales = c.scales[i].data(),
          .bias = c.bias[i].data(),
          .residual = c.residual[i].data()};
}
// The true bytes of each matrix's y.
inline std::vector<std::vector<std::byte>> true_bits(const LinearCase& c) {
  const lab::LinearTruth truth = truth_for(c);
  std::vector<std::vector<std::byte>> y;
  for (std::size_t i = 0; i < c.problem.matrices.size(); ++i) y.push_back(truth.bits(truth_matrix(c, i)));
  return y;
}

// Expects the true bits from every kernel.
inline void expect_same(const LinearCase& c, const std::vector<NamedKernel>& kernels, int threads = 1) {
  const auto want = true_bits(c);
  for (const NamedKernel& kernel : kernels) {
    const auto got = run_linear(kernel.entry, c, threads);
    ASSERT_TRUE(got.status.ok()) << kernel.name << got.status.error().str();
    ASSERT_EQ(got.y, want) << kernel.name << ' ' << threads << " threads, " << describe(c);
  }
}

inline constexpr double kF16Overflow = 65520;  // halfway from the largest f16 to 65536
inline double half_ulp(DType dtype, double v) {
  const int bits = dtype == DType::f32 ? 24 : dtype == DType::f16 ? 11 : 8;
  const double smallest = dtype == DType::f16 ? 0x1p-25 : 0x1p-150;
  return v == 0 ? smallest : std::fmax(smallest, std::ldexp(1.0, std::ilogb(v) - bits));
}

// y in float64 before rounding, and sum |x||w| + |bias| + |residual|, of each element of each matrix.
struct Truth {
  std::vector<std::vector<double>> y, size;
};

inline Truth truth_of(const LinearCase& c) {
  const lab::LinearTruth from = truth_for(c);
  Truth truth;
  for (std::size_t i = 0; i < c.problem.matrices.size(); ++i) {
    lab::LinearTruth::Near near = from.near(truth_matrix(c, i));
    truth.y.push_back(std::move(near.y));
    truth.size.push_back(std::move(near.size));
  }
  return truth;
}

// |y - y64| <= 1e-5 (sum |x||w| + |bias| + |residual|) + half an ulp of the output. For matrices without an activation.
inline void expect_within_bound(const LinearCase& c, const Truth& truth, const NamedKernel& kernel,
                                const LinearResult& got) {
  for (std::size_t i = 0; i < truth.y.size(); ++i) {
    const DType dtype = c.problem.matrices[i].y_dtype;
    for (std::size_t at = 0; at < truth.y[i].size(); ++at) {
      const double y = activation_quantize::read(got.y[i].data(), dtype, static_cast<std::int64_t>(at));
      const double y64 = truth.y[i][at], near = 1e-5 * truth.size[i][at];
      // f16 overflows to infinity; within the bound of the limit either result is right.
      if (dtype == DType::f16 && std::fabs(y64) + near >= kF16Overflow &&
          (std::isinf(y) || std::fabs(y64) - near >= kF16Overflow)) {
        ASSERT_EQ(y, std::copysign(std::numeric_limits<double>::infinity(), y64)) << kernel.name << ' ' << describe(c);
        continue;
      }
      ASSERT_LE(std::fabs(y - y64), near + half_ulp(dtype, y64))
          << kernel.name << " matrix " << i << " element " << at << ' ' << describe(c);
    }
  }
}

// The case reduced to `count` tokens from `first` on.
inline LinearCase tokens_of(const LinearCase& c, std::int64_t first, std::int64_t count) {
  LinearCase some = c;
  some.m = count;
  const auto cut = [&](auto& values, std::int64_t width) {
    values.erase(values.begin() + (first + count) * width, values.end());
    values.erase(values.begin(), values.begin() + first * width);
  };
  cut(some.x_bytes, c.problem.k);
  cut(some.x_floats, c.problem.k);
  cut(some.x_scales, 1);
  for (std::size_t i = 0; i < c.residual.size(); ++i) cut(some.residual[i], c.problem.matrices[i].n);
  return some;
}

// A kernel's bits depend neither on the number of threads nor on the number of tokens per call: 1, 2, .. or all.
inline void expect_same_for_every_thread_count_and_m(const LinearCase& c, const NamedKernel& kernel,
                                                     const LinearResult& want, const std::vector<int>& thread_counts) {
  for (const int threads : thread_counts)
    ASSERT_EQ(run_linear(kernel.entry, c, threads).y, want.y) << kernel.name << ' ' << threads << " threads";
  for (std::int64_t count = 1; count < c.m; ++count)
    for (std::int64_t first = 0; first + count <= c.m; first += count) {
      const auto got = run_linear(kernel.entry, tokens_of(c, first, count));
      for (std::size_t i = 0; i < want.y.size(); ++i) {
        const auto row_bytes = static_cast<std::ptrdiff_t>(want.y[i].size()) / c.m;
        ASSERT_TRUE(
            std::ranges::equal(got.y[i], std::span(want.y[i]).subspan(static_cast<std::size_t>(first * row_bytes),
                                                                      static_cast<std::size_t>(count * row_bytes))))
            << kernel.name << " tokens " << first << " to " << first + count - 1 << ", matrix " << i << ' '
            << describe(c);
      }
    }
}

}  // namespace tern::test
