// The reference for fake_quantize: docs/numerics.md in code, one element at a time, each found by its indices.
#include <cmath>

#include "base/elements.h"
#include "ops/fake_quantize/fake_quantize.h"

namespace tern::fake_quantize {
namespace {

// Every operation is done in T, which is float or double.
template <class T>
Element rounded(double x, double s, int zp, const ElementRule& rule) {
  const T value = static_cast<T>(x), scale = static_cast<T>(s);
  const T v = rule.math == AffineMath::reciprocal ? value * (T{1} / scale) : value / scale;
  const T whole = std::nearbyint(v), low = static_cast<T>(rule.q.min - zp), high = static_cast<T>(rule.q.max - zp);
  return {.v = static_cast<double>(v),
          .q_less_zp = static_cast<int>(std::fmin(std::fmax(whole, low), high)),
          .inside = rule.strict ? whole > low && whole < high : whole >= low && whole <= high};
}

}  // namespace

Element round_element(double x, DType dtype, double s, int zp, const ElementRule& rule) {
  return affine::in_f64(dtype, rule.math) ? rounded<double>(x, s, zp, rule) : rounded<float>(x, s, zp, rule);
}

extern const ReferenceTable reference;
constinit const ReferenceTable reference = {};

std::size_t reference_workspace(const ReferenceTable&, const FakeQuantize::Problem&, int) { return 0; }

Status reference_run(const ReferenceTable&, const Params& params, const Exec&) {
  const auto& p = params.problem;
  const std::int64_t k = affine::last_of(p.shape), elements = affine::rows_of(p.shape) * k;
  for (std::int64_t i = 0; i < elements; ++i) {
    const affine::Place place = affine::place_of(p.shape, i);
    double x = read_element(params.x.data, p.dtype, place.offset(params.x.strides));
    if (p.non_finite == NonFinite::saturate) x = saturated(x, p.dtype);
    if (!std::isfinite(x)) return affine::non_finite_error("fake_quantize", params.x);
    const std::int64_t range = affine::range_of(p.shape, p.granularity, place);
    const double s = read_element(params.qparams.scales, p.scale_dtype, range);
    const int zp = p.zero_points ? load_element<std::int32_t>(params.qparams.zero_points, range) : 0;
    const Element e = round_element(x, p.dtype, s, zp, {params.q, p.math, p.strict});
    const double y = p.dtype == DType::f64
                         ? e.q_less_zp * s
                         : static_cast<double>(static_cast<float>(e.q_less_zp) * static_cast<float>(s));
    write_element(params.y.data, p.dtype, place.offset(params.y.strides), y);
    if (p.mask) params.mask[i / k * params.mask_row_bytes + i % k] = e.inside ? 1 : 0;
  }
  return {};
}

}  // namespace tern::fake_quantize
