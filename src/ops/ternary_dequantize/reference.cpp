// The reference ternary_dequantize: one element at a time, on one thread.
#include "base/elements.h"
#include "format/format.h"
#include "ops/ternary_dequantize/ternary_dequantize.h"

namespace tern::ternary_dequantize {

std::size_t reference_workspace(const ReferenceTable&, const TernaryDequantize::Problem&, int) { return 0; }

Status reference_run(const ReferenceTable&, const Params& params, const Exec&) {
  const auto& p = params.problem;
  const CodeRange valid = code_range(p.scheme);
  for (std::int64_t row = 0; row < p.rows; ++row)
    for (std::int64_t column = 0; column < p.k; ++column) {
      const int code = read_code(p.format, params.codes + row * params.codes_stride, column);
      if (code < valid.min || code > valid.max) return invalid_code_error(params);
      const std::int64_t range =
          params.ranges.per_row == 0 ? 0 : row * params.ranges.per_row + column / params.ranges.len;
      // Exact in f64. Kernels multiply in f32: a product that overflows f32 overflows f16 and bf16 too.
      const double value = code * read_element(params.scales, DType::f32, range);
      write_element(params.y, p.dtype, row * params.y_stride + column, value);
    }
  return {};
}

extern const ReferenceTable reference;
constinit const ReferenceTable reference{};

}  // namespace tern::ternary_dequantize
