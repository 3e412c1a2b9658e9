// The reference for affine_quantize: docs/numerics.md in code, one element at a time, each found by its indices.
#include <cmath>
#include <vector>

#include "base/elements.h"
#include "ops/affine_quantize/affine_quantize.h"

namespace tern::affine_quantize {
namespace {

// Every operation is done in T, which is float or double.
template <class T>
int code_of(double x, double s, int zp, const CodeRange& q, bool reciprocal) {
  const T value = static_cast<T>(x), scale = static_cast<T>(s);
  const T quotient = reciprocal ? value * (T{1} / scale) : value / scale;
  const T rounded = std::nearbyint(quotient);
  const T low = static_cast<T>(q.min - zp), high = static_cast<T>(q.max - zp);
  return static_cast<int>(std::fmin(std::fmax(rounded, low), high)) + zp;
}

}  // namespace

extern const ReferenceTable reference;
constinit const ReferenceTable reference = {};

std::size_t reference_workspace(const ReferenceTable&, const AffineQuantize::Problem&, int) { return 0; }

Status reference_run(const ReferenceTable&, const Params& params, const Exec&) {
  const auto& p = params.problem;
  const std::int64_t rows = affine::rows_of(p.shape), k = affine::last_of(p.shape);
  std::vector<std::int8_t> row_codes(static_cast<std::size_t>(k));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < k; ++column) {
      const affine::Place place = affine::place_of(p.shape, row * k + column);
      double x = read_element(params.x.data, p.dtype, place.offset(params.x.strides));
      if (p.non_finite == NonFinite::saturate) x = saturated(x, p.dtype);
      if (!std::isfinite(x)) return affine::non_finite_error("affine_quantize", params.x);

      const std::int64_t range = affine::range_of(p.shape, p.granularity, place);
      const double s = read_element(params.qparams.scales, p.scale_dtype, range);
      const int zp = p.zero_points ? load_element<std::int32_t>(params.qparams.zero_points, range) : 0;
      const bool reciprocal = p.math == AffineMath::reciprocal;
      const int code = affine::in_f64(p.dtype, p.math) ? code_of<double>(x, s, zp, params.q, reciprocal)
                                                       : code_of<float>(x, s, zp, params.q, reciprocal);
      row_codes[static_cast<std::size_t>(column)] = static_cast<std::int8_t>(code);
    }
    pack_row(p.format, row_codes.data(), k, params.codes + row * params.code_row_bytes);
  }
  return {};
}

}  // namespace tern::affine_quantize
