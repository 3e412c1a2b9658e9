// The slow reference of linear: docs/numerics.md as plain code, one output at a time, on one thread.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "ops/activation_quantize/activation_quantize.h"
#include "ops/linear/linear.h"

namespace tern::linear {

extern const ReferenceTable reference;
constinit const ReferenceTable reference = {};

namespace {

// A token as the product sees it: int8 with its scale, or floats.
struct Token {
  std::vector<double> x;
  float s = 0;  // 0: nothing to divide by
};

Result<Token> read_token(const Params& p, std::int64_t m) {
  Token token;
  token.x.resize(static_cast<std::size_t>(p.k));
  if (p.x_dtype == DType::i8) {
    const auto* x = static_cast<const std::int8_t*>(p.x) + m * p.x_stride;
    for (std::int64_t i = 0; i < p.k; ++i) token.x[static_cast<std::size_t>(i)] = x[i];
    token.s = p.x_scales == nullptr ? 0 : activation_quantize::read(p.x_scales, DType::f32, m);
    return token;
  }
  float max_abs = 0;
  for (std::int64_t i = 0; i < p.k; ++i) {
    float v = activation_quantize::read(p.x, p.x_dtype, m * p.x_stride + i);
    if (p.non_finite == NonFinite::saturate) v = activation_quantize::saturated(v, p.x_dtype);
    if (!std::isfinite(v)) return activation_quantize::non_finite_error("linear", p.x, p.x_dtype, p.x_stride, p.m, p.k);
    max_abs = std::fmax(max_abs, std::fabs(v));
    token.x[static_cast<std::size_t>(i)] = v;
  }
  if (p.math == LinearMath::w2_float) return token;
  token.s = 127.0F / std::fmax(max_abs, 1e-5F);
  for (double& v : token.x) v = std::fmin(std::fmax(std::nearbyint(static_cast<float>(v) * token.s), -128.0F), 127.0F);
  return token;
}

float read_y(const std::byte* data, DType dtype, std::int64_t index) {
  return activation_quantize::read(data, dtype, index);
}

void write_y(std::byte* data, DType dtype, std::int64_t index, float v) {
  std::byte* at = data + index * static_cast<std::int64_t>(size_of(dtype));
  if (dtype == DType::f32) {
    std::memcpy(at, &v, sizeof v);
  } else {
    const std::uint16_t half = dtype == DType::f16 ? half::to_f16(v) : half::to_bf16(v);
    std::memcpy(at, &half, sizeof half);
  }
}

// The sum over a segment in f64, where int8 products and their sums are exact.
double dot(const PackedWeights::State& w, const Token& token, std::int64_t n, std::int64_t segment) {
  double sum = 0;
  for (std::int64_t i = 0; i < w.tile.elems_of(segment); ++i) {
    const std::int64_t k = segment * w.tile.segment_elems + i;
    sum += token.x[static_cast<std::size_t>(k)] * w.tile.value(w.codes, n, k);
  }
  return sum;
}

float scale_of(const PackedWeights::State& w, std::int64_t n, std::int64_t segment) {
  return w.granularity.kind == Granularity::Kind::tensor
             ? w.scales[0]
             : w.scales[PackedScales::scale_at(n, segment, w.tile.segments)];
}

// Group scales enter here, the others in the epilogue.
float sum_of(const Matrix& matrix, const Token& token, std::int64_t n, LinearMath math) {
  const PackedWeights::State& w = *matrix.weights;
  const std::int64_t groups = w.tile.segments;
  if (w.granularity.kind != Granularity::Kind::group)
    return groups == 0 ? 0.0F : static_cast<float>(dot(w, token, n, 0));
  if (math == LinearMath::w2_float) {
    double total = 0;
    for (std::int64_t g = 0; g < groups; ++g) total += dot(w, token, n, g) * static_cast<double>(scale_of(w, n, g));
    return static_cast<float>(total);
  }
  float total = 0;
  for (std::int64_t first = 0; first < groups; first += dot::kChainGroups) {
    float chain = 0;
    for (std::int64_t g = first; g < std::min(groups, first + dot::kChainGroups); ++g)
      chain = std::fma(static_cast<float>(dot(w, token, n, g)), scale_of(w, n, g), chain);
    total = first == 0 ? chain : total + chain;
  }
  return total;
}

}  // namespace

std::size_t reference_workspace(const ReferenceTable&, const Linear::Problem&, int) { return 0; }

Status reference_run(const ReferenceTable&, const Params& p, const Exec&) {
  for (std::int64_t m = 0; m < p.m; ++m) {
    auto token = read_token(p, m);
    if (!token.ok()) return std::move(token).error();
    for (std::size_t i = 0; i < p.count; ++i) {
      const Matrix& matrix = p.matrices[i];
      const Linear::Matrix& spec = matrix.spec;
      for (std::int64_t n = 0; n < spec.n; ++n) {
        if (spec.y_dtype == DType::i32) {
          const PackedWeights::State& w = *matrix.weights;
          const auto bare = static_cast<std::int32_t>(w.tile.segments == 0 ? 0 : dot(w, *token, n, 0));
          std::memcpy(matrix.y + (m * matrix.y_stride + n) * 4, &bare, sizeof bare);
          continue;
        }
        float t = sum_of(matrix, *token, n, p.math);
        if (p.math == LinearMath::w2a8) t = t / token->s;
        if (spec.granularity.kind != Granularity::Kind::group) t = t * scale_of(*matrix.weights, n, 0);
        if (spec.bias) t = t + activation_quantize::read(matrix.bias, DType::f32, n);
        if (spec.activation == Activation::squared_relu) {
          const float r = t < 0 ? 0.0F : t;
          t = r * r;
        }
        if (spec.residual) t = t + read_y(matrix.residual, spec.y_dtype, m * matrix.residual_stride + n);
        write_y(matrix.y, spec.y_dtype, m * matrix.y_stride + n, t);
      }
    }
  }
  return {};
}

}  // namespace tern::linear
