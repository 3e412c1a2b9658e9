// The reference ternary_quantize: docs/numerics.md as code, one element at a time, on one thread.
#include <cmath>
#include <vector>

#include "base/elements.h"
#include "base/errors.h"
#include "format/format.h"
#include "ops/ordered_sum.h"
#include "ops/ternary_quantize/ternary_quantize.h"

namespace tern::ternary_quantize {
namespace {

// One range of the tensor, read element by element.
class Range {
 public:
  Range(const Params& params, std::int64_t first, std::int64_t count) : params_(params), first_(first), count_(count) {}

  [[nodiscard]] std::int64_t count() const { return count_; }

  // Element i of the range as the schemes see it; widening is exact.
  [[nodiscard]] double operator[](std::int64_t i) const {
    const double v = raw(i);
    return params_.problem.non_finite == NonFinite::reject ? v : saturated(v, params_.problem.dtype);
  }
  [[nodiscard]] double raw(std::int64_t i) const {
    const std::int64_t index = first_ + i, k = params_.problem.k;
    return read_element(params_.x, params_.problem.dtype, index / k * params_.x_stride + index % k);
  }

 private:
  const Params& params_;
  std::int64_t first_, count_;
};

// T is the type that the schemes compute in: float for f32, f16 and bf16, double for f64.
template <class T>
T mean_abs(const Range& range) {
  const double sum = ordered_sum(range.count(), [&](std::int64_t i) { return std::fabs(range[i]); });
  return static_cast<T>(sum / static_cast<double>(range.count()));
}

template <class T>
T mse_scale(const Range& range) {
  T s = std::fmax(mean_abs<T>(range), T{1e-5F});
  for (int round = 1; round <= 16; ++round) {
    const auto above = [&](std::int64_t i) { return T{2} * std::fabs(static_cast<T>(range[i])) > s; };
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < range.count(); ++i) count += above(i) ? 1 : 0;
    if (count == 0) return s;
    const double sum = ordered_sum(range.count(), [&](std::int64_t i) { return above(i) ? std::fabs(range[i]) : 0.0; });
    const T next = std::fmax(static_cast<T>(sum / static_cast<double>(count)), T{1e-5F});
    if (next == s) return s;
    s = next;
  }
  return s;
}

template <class T>
T range_scale(const Range& range, Scheme scheme) {
  switch (scheme) {
    case Scheme::absmean: return std::fmax(mean_abs<T>(range), T{1e-5F});
    case Scheme::mse: return mse_scale<T>(range);
    case Scheme::absmax: {
      T top = 0;
      for (std::int64_t i = 0; i < range.count(); ++i) top = std::fmax(top, std::fabs(static_cast<T>(range[i])));
      return std::fmax(top, T{1e-8F});
    }
    case Scheme::int2: break;
  }
  T up = 0, down = 0;
  for (std::int64_t i = 0; i < range.count(); ++i) {
    up = std::fmax(up, static_cast<T>(range[i]));
    down = std::fmax(down, static_cast<T>(-range[i]));
  }
  return std::fmax(std::fmax(up, down / T{2}), T{1e-8F});
}

template <class T>
int code_of(T x, T s, Scheme scheme) {
  if (scheme == Scheme::int2) return static_cast<int>(std::nearbyint(std::fmin(std::fmax(x / s, T{-2}), T{1})));
  if (!(T{2} * std::fabs(x) > s)) return 0;
  return x > 0 ? 1 : -1;
}

template <class T>
Status run(const Params& params) {
  const auto& problem = params.problem;
  const Range all(params, 0, problem.rows * problem.k);
  if (problem.non_finite == NonFinite::reject && !params.finite)
    for (std::int64_t i = 0; i < all.count(); ++i)
      if (!std::isfinite(all.raw(i))) return non_finite_error(params, i);

  std::vector<std::int8_t> row(static_cast<std::size_t>(problem.k));
  for (std::int64_t r = 0; r < params.ranges.total; ++r) {
    const std::int64_t per_row = params.ranges.per_row;
    const std::int64_t begin = per_row == 0 ? 0 : r % per_row * params.ranges.len;  // column of the first element
    const std::int64_t first = per_row == 0 ? 0 : r / per_row * problem.k + begin;
    const std::int64_t count = per_row == 0 ? all.count() : std::min(params.ranges.len, problem.k - begin);
    const Range range(params, first, count);
    const T scale = params.given != nullptr
                        ? static_cast<T>(read_element(params.given, DType::f32, r * params.given_step))
                        : range_scale<T>(range, problem.scheme);
    const auto stored = static_cast<float>(scale);  // the one rounding of an f64 scale
    if (std::isinf(stored)) return scale_error(params, r, scale);
    write_element(params.scales, DType::f32, r, static_cast<double>(stored));
    if (params.codes == nullptr) continue;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t column = (first + i) % problem.k;
      row[static_cast<std::size_t>(column)] =
          static_cast<std::int8_t>(code_of(static_cast<T>(range[i]), static_cast<T>(stored), problem.scheme));
      if (column == problem.k - 1)
        pack_row(problem.format, row.data(), problem.k, params.codes + (first + i) / problem.k * params.codes_stride);
    }
  }
  return {};
}

}  // namespace

std::size_t reference_workspace(const ReferenceTable&, const TernaryQuantize::Problem&, int) { return 0; }

Status reference_run(const ReferenceTable&, const Params& params, const Exec&) {
  return params.problem.dtype == DType::f64 ? run<double>(params) : run<float>(params);
}

extern const ReferenceTable reference;
constinit const ReferenceTable reference{};

}  // namespace tern::ternary_quantize
