// The reference for choose_qparams: docs/numerics.md in code, one range at a time, its elements in a std::vector.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/elements.h"
#include "ops/choose_qparams/choose_qparams.h"
#include "ops/ordered_sum.h"

namespace tern::choose_qparams {
namespace {

// Every operation is done in T, which is float or double; only the sum is in f64.
template <class T>
double squared_error(const std::vector<T>& x, const Chosen<T>& chosen, const CodeRange& q) {
  const T low = static_cast<T>(q.min - chosen.zero_point), high = static_cast<T>(q.max - chosen.zero_point);
  return ordered_sum(static_cast<std::int64_t>(x.size()), [&](std::int64_t i) {
    const T v = x[static_cast<std::size_t>(i)];
    const T code = std::fmin(std::fmax(std::nearbyint(v / chosen.scale), low), high);
    const auto error = static_cast<double>(v - code * chosen.scale);
    return error * error;
  });
}

template <class T>
Chosen<T> chosen(const ChooseQparams::Problem& p, const Rule& rule, std::vector<T> x) {
  if (p.method == QparamsMethod::percentile) {
    if (!p.zero_points)
      for (T& v : x) v = std::fabs(v);
    std::sort(x.begin(), x.end());
    const auto rank = static_cast<std::size_t>(rank_of(p.percentile, static_cast<std::int64_t>(x.size())));
    const T highest = x[rank - 1], lowest = x[x.size() - rank];
    x = p.zero_points ? std::vector<T>{lowest, highest} : std::vector<T>{highest};
  }
  T up = 0, down = 0;
  for (const T v : x) {
    up = std::fmax(up, v);
    down = std::fmax(down, -v);
  }
  const Chosen<T> all = choose(rule, up, down);
  if (p.method != QparamsMethod::mse || std::isinf(all.scale)) return all;
  Chosen<T> best = all;
  double least = squared_error(x, all, rule.q);
  for (int i = 1; i < kShrinks; ++i) {
    const Chosen<T> next = shrunk(rule, up, down, i);
    const double error = squared_error(x, next, rule.q);
    if (error < least) best = next;
    least = std::fmin(least, error);
  }
  return best;
}

// Returns false if the scale's type cannot hold it.
template <class T>
bool choose_range(const Params& params, std::int64_t range, const std::vector<double>& elements) {
  const Chosen<T> result = chosen(params.problem, params.rule, std::vector<T>(elements.begin(), elements.end()));
  if (std::isinf(result.scale)) return false;
  store(params, range, result);
  return true;
}

}  // namespace

extern const ReferenceTable reference;
constinit const ReferenceTable reference = {};

std::size_t reference_workspace(const ReferenceTable&, const ChooseQparams::Problem&, int) { return 0; }

Status reference_run(const ReferenceTable&, const Params& params, const Exec&) {
  const auto& p = params.problem;
  std::vector<std::vector<double>> ranges(static_cast<std::size_t>(params.count));
  const std::int64_t elements = affine::rows_of(p.shape) * affine::last_of(p.shape);
  for (std::int64_t i = 0; i < elements; ++i) {
    const affine::Place place = affine::place_of(p.shape, i);
    double x = read_element(params.x.data, p.dtype, place.offset(params.x.strides));
    if (p.non_finite == NonFinite::saturate) x = saturated(x, p.dtype);
    if (!std::isfinite(x)) return affine::non_finite_error(params.op, params.x);
    ranges[static_cast<std::size_t>(affine::range_of(p.shape, p.granularity, place))].push_back(x);
  }
  for (std::int64_t range = 0; range < params.count; ++range) {
    const auto& x = ranges[static_cast<std::size_t>(range)];
    const bool held =
        p.dtype == DType::f64 ? choose_range<double>(params, range, x) : choose_range<float>(params, range, x);
    if (!held) return scale_error(params, range);
  }
  return {};
}

}  // namespace tern::choose_qparams
