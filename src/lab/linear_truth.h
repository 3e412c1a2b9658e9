// The truth of linear for tests and the selftest: docs/numerics.md implemented a second time, slowly, from canonical
// codes and scales. It uses no tiles, so it finds what packing puts in a wrong place.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/elements.h"
#include "base/half.h"
#include "format/format.h"
#include "format/ranges.h"
#include "ops/linear/linear.h"
#include "tern/linear.h"

namespace tern::lab {

// For scales by group: combines the exact sums of the groups of one output with their scales, before the division by
// the token's scale. Groups are in chains of 128, with one fused multiply-add for each group; the results of the chains
// are added in order.
inline float group_sum(std::span<const std::int64_t> dots, std::span<const float> scales) {
  float total = 0;
  for (std::size_t first = 0; first < dots.size(); first += 128) {
    float chain = 0;
    for (std::size_t g = first; g < std::min(dots.size(), first + 128); ++g)
      chain = std::fma(static_cast<float>(dots[g]), scales[g], chain);
    total = first == 0 ? chain : total + chain;
  }
  return total;
}

// One matrix of a problem with its data.
struct TruthMatrix {
  Linear::Matrix spec;
  const std::uint8_t* codes = nullptr;  // canonical rows of the problem's format
  const float* scales = nullptr;        // canonical: one, [n] or [n, groups]
  const float* bias = nullptr;
  const float* residual = nullptr;  // [m, n], rounded to y's type here
};

// v rounded to the type in which it is stored, and the stored bytes.
inline double stored(float v, DType dtype) {
  if (dtype == DType::f16) return static_cast<double>(half::from_f16(half::to_f16(v)));
  if (dtype == DType::bf16) return static_cast<double>(half::from_bf16(half::to_bf16(v)));
  return static_cast<double>(v);
}
template <class T>
void append_value(std::vector<std::byte>& to, T v) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&v);
  to.insert(to.end(), bytes, bytes + sizeof v);
}
inline void append_stored(std::vector<std::byte>& to, float v, DType dtype) {
  if (dtype == DType::f32) return append_value(to, v);
  append_value(to, dtype == DType::f16 ? half::to_f16(v) : half::to_bf16(v));
}

class LinearTruth {
 public:
  // m tokens. If the problem's x is i8, they are `bytes` with their scales (none for i32 results); otherwise `floats`,
  // which are rounded to x's type here.
  LinearTruth(const Linear::Problem& problem, std::int64_t m, const std::int8_t* bytes, const float* floats,
              const float* x_scales)
      : p_(problem), m_(m), k_(static_cast<std::size_t>(problem.k)) {
    for (std::int64_t token = 0; token < m; ++token) {
      const std::size_t first = static_cast<std::size_t>(token) * k_;
      if (p_.x_dtype == DType::i8) {
        q_.insert(q_.end(), bytes + first, bytes + first + k_);
        s_.push_back(x_scales == nullptr ? 1 : x_scales[token]);
      } else {
        read_floats(floats + first);
      }
    }
  }

  // The bytes of y, [m, n], in the modes whose bits the contract fixes.
  [[nodiscard]] std::vector<std::byte> bits(const TruthMatrix& matrix) const {
    const Linear::Matrix& spec = matrix.spec;
    const auto n = static_cast<std::size_t>(spec.n);
    const std::vector<std::int8_t> weights = unpacked(matrix);
    std::vector<std::byte> y;
    for (std::size_t m = 0; m < static_cast<std::size_t>(m_); ++m)
      for (std::size_t row = 0; row < n; ++row) {
        const std::int8_t* w = weights.data() + row * k_;
        if (spec.y_dtype == DType::i32) {
          append_value(y, static_cast<std::int32_t>(dot(m, w, 0, k_)));
          continue;
        }
        float t = 0;
        if (spec.granularity.kind == Granularity::Kind::group) {
          const std::span<const float> scales = scales_of(matrix, row);
          std::vector<std::int64_t> dots;
          for (std::size_t g = 0; g < scales.size(); ++g)
            dots.push_back(dot(m, w, g * group(spec), std::min((g + 1) * group(spec), k_)));
          t = group_sum(dots, scales);
        } else {
          t = static_cast<float>(dot(m, w, 0, k_));
        }
        t = t / s_[m];
        if (spec.granularity.kind != Granularity::Kind::group) t = t * scales_of(matrix, row)[0];
        if (spec.bias) t = t + matrix.bias[row];
        if (spec.activation == Activation::squared_relu) {
          const float r = t < 0 ? 0.0F : t;
          t = r * r;
        }
        if (spec.residual) t = t + static_cast<float>(stored(matrix.residual[m * n + row], spec.y_dtype));
        append_stored(y, t, spec.y_dtype);
      }
    return y;
  }

  // y in f64 before rounding, and size = sum |x||w| + |bias| + |residual|, from which the error bound of the float
  // modes is computed. Neither includes the activation.
  struct Near {
    std::vector<double> y, size;
  };
  [[nodiscard]] Near near(const TruthMatrix& matrix) const {
    const Linear::Matrix& spec = matrix.spec;
    const auto n = static_cast<std::size_t>(spec.n), m_count = static_cast<std::size_t>(m_);
    const bool groups = spec.granularity.kind == Granularity::Kind::group;
    const std::vector<std::int8_t> weights = unpacked(matrix);
    std::vector<double> x(x_), w(k_);
    for (std::size_t i = 0; i < q_.size(); ++i) x.push_back(q_[i] / static_cast<double>(s_[i / k_]));
    Near near{std::vector<double>(m_count * n), std::vector<double>(m_count * n)};
    for (std::size_t row = 0; row < n; ++row) {
      const std::span<const float> scales = scales_of(matrix, row);
      for (std::size_t i = 0; i < k_; ++i)
        w[i] = weights[row * k_ + i] * static_cast<double>(scales[groups ? i / group(spec) : 0]);
      for (std::size_t m = 0; m < m_count; ++m) {
        double sum = 0, size = 0;
        for (std::size_t i = 0; i < k_; ++i) {
          sum += x[m * k_ + i] * w[i];
          size += std::fabs(x[m * k_ + i] * w[i]);
        }
        const double bias = spec.bias ? static_cast<double>(matrix.bias[row]) : 0;
        const double residual = spec.residual ? stored(matrix.residual[m * n + row], spec.y_dtype) : 0;
        near.y[m * n + row] = sum + bias + residual;
        near.size[m * n + row] = size + std::fabs(bias) + std::fabs(residual);
      }
    }
    return near;
  }

 private:
  void read_floats(const float* given) {
    std::vector<float> x(k_);
    float max_abs = 0;
    for (std::size_t i = 0; i < k_; ++i) {
      const double v = stored(given[i], p_.x_dtype);
      x[i] = static_cast<float>(p_.non_finite == NonFinite::saturate ? saturated(v, p_.x_dtype) : v);
      max_abs = std::fmax(max_abs, std::fabs(x[i]));
    }
    if (p_.math == LinearMath::w2_float) {
      x_.insert(x_.end(), x.begin(), x.end());
      return;
    }
    const float s = 127.0F / std::fmax(max_abs, 1e-5F);
    for (const float v : x)
      q_.push_back(static_cast<std::int8_t>(std::fmin(std::fmax(std::nearbyint(v * s), -128.0F), 127.0F)));
    s_.push_back(s);
  }

  [[nodiscard]] std::vector<std::int8_t> unpacked(const TruthMatrix& matrix) const {
    std::vector<std::int8_t> weights;
    const std::int64_t line = row_bytes(p_.format, p_.k);
    for (std::int64_t row = 0; row < matrix.spec.n; ++row)
      for (std::int64_t i = 0; i < p_.k; ++i)
        weights.push_back(static_cast<std::int8_t>(read_code(p_.format, matrix.codes + row * line, i)));
    return weights;
  }
  // The sum over columns [first, last).
  [[nodiscard]] std::int64_t dot(std::size_t m, const std::int8_t* w, std::size_t first, std::size_t last) const {
    std::int64_t sum = 0;
    for (std::size_t i = first; i < last; ++i) sum += q_[m * k_ + i] * w[i];
    return sum;
  }
  [[nodiscard]] std::size_t group(const Linear::Matrix& spec) const {
    return static_cast<std::size_t>(std::min(spec.granularity.group_size, p_.k));
  }
  [[nodiscard]] std::span<const float> scales_of(const TruthMatrix& matrix, std::size_t row) const {
    static constexpr float kNone = 1;  // without columns there are no scales
    if (k_ == 0) return {&kNone, matrix.spec.granularity.kind == Granularity::Kind::group ? 0U : 1U};
    switch (matrix.spec.granularity.kind) {
      case Granularity::Kind::tensor: return {matrix.scales, 1};
      case Granularity::Kind::row: return {matrix.scales + row, 1};
      case Granularity::Kind::group: break;
    }
    const auto groups = static_cast<std::size_t>(make_ranges(1, p_.k, matrix.spec.granularity).total);
    return {matrix.scales + row * groups, groups};
  }

  Linear::Problem p_;
  std::int64_t m_;
  std::size_t k_;
  std::vector<std::int8_t> q_;  // [m, k], for exact sums
  std::vector<double> x_;       // [m, k], if the activations stay floats
  std::vector<float> s_;        // [m]
};

}  // namespace tern::lab
