// One sum of linear as it is easiest to read: element by element, in f64. The plain kernel is made of it, and the fast
// float modes go back to it where f32 overflows or x is not finite. For .cu files only.
#pragma once

#include "ops/linear/cuda_job.h"
#include "ops/linear/cuda_serves.h"

namespace tern::linear {
namespace {

// x as it was given, or int8 tokens made of it.
struct PlainTokens {
  const void* x;
  std::int64_t stride;  // elements
  std::int64_t k;
  std::int64_t first;  // which token the first one is, for reports
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

// The sum over columns first, first + step, ... of x * weight, times the scale of its group where there are groups
// (else group is 0). Of int8 tokens without groups it is exact: below 2^31. Where x is rejected there is no sum.
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

// What the epilogue needs of a row; with groups their scales are in the sum already.
__device__ inline RowTerms terms_of(const MatrixJob& matrix, bool groups, int n) {
  RowTerms terms = {.scale = 1.0F, .bias = matrix.bias != nullptr ? matrix.bias[n] : 0.0F};
  if (!groups) terms.scale = matrix.scales[matrix.one_scale ? 0 : n];
  return terms;
}

}  // namespace
}  // namespace tern::linear
