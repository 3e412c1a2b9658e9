// The slow truth of ternary_quantize: docs/numerics.md said again in code, one element at a time, on one thread.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/errors.h"
#include "format/format.h"
#include "ops/ternary_quantize/ternary_quantize.h"

namespace tern::ternary_quantize {
namespace {

// One range of the tensor, read element by element.
class Range {
 public:
  Range(const Params& params, std::int64_t first, std::int64_t count) : params_(params), first_(first), count_(count) {}

  [[nodiscard]] std::int64_t count() const { return count_; }

  // Element i of the range as the schemes see it.
  [[nodiscard]] float operator[](std::int64_t i) const {
    const float v = raw(i);
    if (params_.problem.non_finite == NonFinite::reject) return v;
    if (std::isnan(v)) return 0.0F;
    if (std::isinf(v)) return std::copysign(std::numeric_limits<float>::max(), v);
    return v;
  }
  [[nodiscard]] float raw(std::int64_t i) const {
    const std::int64_t index = first_ + i;
    float v = 0;
    std::memcpy(&v, params_.x + index / params_.problem.k * params_.x_stride + index % params_.problem.k, sizeof v);
    return v;
  }

 private:
  const Params& params_;
  std::int64_t first_, count_;
};

// The contract's order of sums; term(i) is what element i adds.
template <class Term>
double ordered_sum(std::int64_t n, Term term) {
  std::vector<double> level;
  for (std::int64_t block = 0; block < n; block += 1024) {
    double lane[32] = {};
    for (std::int64_t quad = 0; quad < 256; ++quad) {
      double a[4] = {};
      for (std::int64_t j = 0; j < 4; ++j)
        if (const std::int64_t i = block + 4 * quad + j; i < n) a[j] = term(i);
      lane[quad % 32] += (a[0] + a[1]) + (a[2] + a[3]);
    }
    for (int half = 16; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
    level.push_back(lane[0]);
  }
  while (level.size() > 1) {
    std::vector<double> next;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(level[i] + level[i + 1]);
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = std::move(next);
  }
  return level.empty() ? 0.0 : level[0];
}

float mean_abs(const Range& range) {
  const double sum =
      ordered_sum(range.count(), [&](std::int64_t i) { return std::fabs(static_cast<double>(range[i])); });
  return static_cast<float>(sum / static_cast<double>(range.count()));
}

float mse_scale(const Range& range) {
  float s = std::fmax(mean_abs(range), 1e-5F);
  for (int round = 1; round <= 16; ++round) {
    const auto above = [&](std::int64_t i) { return 2.0F * std::fabs(range[i]) > s; };
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < range.count(); ++i) count += above(i) ? 1 : 0;
    if (count == 0) return s;
    const double sum = ordered_sum(
        range.count(), [&](std::int64_t i) { return above(i) ? std::fabs(static_cast<double>(range[i])) : 0.0; });
    const float next = std::fmax(static_cast<float>(sum / static_cast<double>(count)), 1e-5F);
    if (next == s) return s;
    s = next;
  }
  return s;
}

float range_scale(const Range& range, Scheme scheme) {
  switch (scheme) {
    case Scheme::absmean: return std::fmax(mean_abs(range), 1e-5F);
    case Scheme::mse: return mse_scale(range);
    case Scheme::absmax: {
      float top = 0;
      for (std::int64_t i = 0; i < range.count(); ++i) top = std::fmax(top, std::fabs(range[i]));
      return std::fmax(top, 1e-8F);
    }
    case Scheme::int2: break;
  }
  float up = 0, down = 0;
  for (std::int64_t i = 0; i < range.count(); ++i) {
    up = std::fmax(up, range[i]);
    down = std::fmax(down, -range[i]);
  }
  return std::fmax(std::fmax(up, down / 2.0F), 1e-8F);
}

int code_of(float x, float s, Scheme scheme) {
  if (scheme == Scheme::int2) return static_cast<int>(std::nearbyint(std::fmin(std::fmax(x / s, -2.0F), 1.0F)));
  if (!(2.0F * std::fabs(x) > s)) return 0;
  return x > 0 ? 1 : -1;
}

}  // namespace

std::size_t reference_workspace(const ReferenceTable&, const TernaryQuantize::Problem&, int) { return 0; }

Status reference_run(const ReferenceTable&, const Params& params, const Exec&) {
  const auto& problem = params.problem;
  const Range all(params, 0, problem.rows * problem.k);
  if (problem.non_finite == NonFinite::reject)
    for (std::int64_t i = 0; i < all.count(); ++i)
      if (!std::isfinite(all.raw(i))) return non_finite_error(params, i);

  std::vector<std::int8_t> row(static_cast<std::size_t>(problem.k));
  for (std::int64_t r = 0; r < params.ranges.total; ++r) {
    const std::int64_t per_row = params.ranges.per_row;
    const std::int64_t begin = per_row == 0 ? 0 : r % per_row * params.ranges.len;  // column of the first element
    const std::int64_t first = per_row == 0 ? 0 : r / per_row * problem.k + begin;
    const std::int64_t count = per_row == 0 ? all.count() : std::min(params.ranges.len, problem.k - begin);
    const Range range(params, first, count);
    float s = params.given != nullptr ? 0.0F : range_scale(range, problem.scheme);
    if (params.given != nullptr) std::memcpy(&s, params.given + r * params.given_step, sizeof s);
    std::memcpy(params.scales + r, &s, sizeof s);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t column = (first + i) % problem.k;
      row[static_cast<std::size_t>(column)] = static_cast<std::int8_t>(code_of(range[i], s, problem.scheme));
      if (column == problem.k - 1)
        pack_row(problem.format, row.data(), problem.k, params.codes + (first + i) / problem.k * params.codes_stride);
    }
  }
  return {};
}

extern const ReferenceTable reference;
constinit const ReferenceTable reference{};

}  // namespace tern::ternary_quantize
