// One sum of linear in its simplest form: element by element, in f64. The plain kernel uses it, and the fast float
// modes fall back to it where f32 is not enough or x is not finite. For .cu files only.
#pragma once

#include "ops/linear/cuda_job.h"
#include "ops/linear/cuda_serves.h"

namespace tern::linear {
namespace {

// x as given, or the int8 tokens that it was quantized to.
struct PlainTokens {
  const void* x;
  std::int64_t stride;  // elements
  std::int64_t k;
  std::int64_t first;  // index of the first token, for reports
  DType dtype;
  bool saturate;
  cuda::Report report;

  [[nodiscard]] __device__ float at(std::int64_t token, std::int64_t column) const {
    const std::int64_t i = token * stride + column;
    switch (dtype) {
      case DType::i8: return static_cast<const std::int8_t*>(x)[i];
      case DType::f16: return cuda::F16::widen(static_cast<const std::uint16_t*>(x)[i]);
      case DType::bf16: return cuda::Bf16::widen(static_cast<const std::uint16_t*>(x)[i]);
      default: return static_cast<const float*>(x)[i];
    }
  }
  [[nodiscard]] __device__ float saturated(float v) const {
    switch (dtype) {
      case DType::f16: return cuda::saturated<cuda::F16>(v);
      case DType::bf16: return cuda::saturated<cuda::Bf16>(v);
      default: return cuda::saturated<cuda::F32>(v);
    }
  }
};

// The sum of x * weight over columns first, first + step, ...; where there are groups (group > 0), each product is
// multiplied by its group's scale. Exact for int8 tokens without groups: below 2^31. Reports x that is not finite, if
// that is rejected, and returns 0.
__device__ inline double plain_sum(const MatrixJob& matrix, std::int64_t group, const PlainTokens& tokens,
                                   std::int64_t token, std::int64_t n, std::int64_t first, std::int64_t step) {
  const TileMma tile = TileMma::of(matrix.n, tokens.k, matrix.bits);
  const auto* packed = reinterpret_cast<const std::uint8_t*>(matrix.tiles);
  const std::int64_t groups = group > 0 ? ceil_div(tokens.k, group) : 1;
  double sum = 0;
  for (std::int64_t column = first; column < tokens.k; column += step) {
    const float v = tokens.at(token, column);
    if (!tokens.saturate && !cuda::finite(v)) {
      tokens.report(cuda::kNonFinite, (tokens.first + token) * tokens.k + column);
      return 0;
    }
    const double x = tokens.saturated(v);
    const double scale = group > 0 ? matrix.scales[TileMma::scale_at(n, column / group, groups)] : 1.0;
    sum = __dadd_rn(sum, __dmul_rn(x * tile.value(packed, n, column), scale));
  }
  return sum;
}

// What the epilogue needs of a row. Group scales are in the sum already.
__device__ inline RowTerms terms_of(const MatrixJob& matrix, bool groups, int n) {
  RowTerms terms = {.scale = 1.0F, .bias = matrix.bias != nullptr ? matrix.bias[n] : 0.0F};
  if (!groups) terms.scale = matrix.scales[matrix.one_scale ? 0 : n];
  return terms;
}

}  // namespace
}  // namespace tern::linear
