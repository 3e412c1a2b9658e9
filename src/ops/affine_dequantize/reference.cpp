// The reference for affine_dequantize: one element at a time, each found by its indices.
#include "base/elements.h"
#include "ops/affine_dequantize/affine_dequantize.h"

namespace tern::affine_dequantize {

extern const ReferenceTable reference;
constinit const ReferenceTable reference = {};

std::size_t reference_workspace(const ReferenceTable&, const AffineDequantize::Problem&, int) { return 0; }

Status reference_run(const ReferenceTable&, const Params& params, const Exec&) {
  const auto& p = params.problem;
  const std::int64_t rows = affine::rows_of(p.shape), k = affine::last_of(p.shape);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < k; ++column) {
      const affine::Place place = affine::place_of(p.shape, row * k + column);
      const std::int64_t range = affine::range_of(p.shape, p.granularity, place);
      const double s = read_element(params.qparams.scales, p.scale_dtype, range);
      const int zp = p.zero_points ? load_element<std::int32_t>(params.qparams.zero_points, range) : 0;
      const int q = read_code(p.format, params.codes + row * params.code_row_bytes, column) - zp;
      const double value =
          p.dtype == DType::f64 ? q * s : static_cast<double>(static_cast<float>(q) * static_cast<float>(s));
      write_element(params.y.data, p.dtype, place.offset(params.y.strides), value);
    }
  return {};
}

}  // namespace tern::affine_dequantize
