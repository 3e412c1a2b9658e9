// The reference activation_quantize: docs/numerics.md as code, one element at a time.
#include <cmath>

#include "ops/activation_quantize/activation_quantize.h"

namespace tern::activation_quantize {

extern const ReferenceTable reference;
constinit const ReferenceTable reference = {};

std::size_t reference_workspace(const ReferenceTable&, const ActivationQuantize::Problem&, int) { return 0; }

Status reference_run(const ReferenceTable&, const Params& params, const Exec&) {
  const auto& p = params.problem;
  for (std::int64_t token = 0; token < p.m; ++token) {
    const auto x = [&](std::int64_t i) {
      const float v = read(params.x, p.dtype, token * params.x_stride + i);
      return p.non_finite == NonFinite::saturate ? saturated(v, p.dtype) : v;
    };
    float max_abs = 0;
    for (std::int64_t i = 0; i < p.k; ++i) {
      if (!std::isfinite(x(i)))
        return non_finite_error("activation_quantize", params.x, p.dtype, params.x_stride, p.m, p.k);
      max_abs = std::fmax(max_abs, std::fabs(x(i)));
    }
    const float s = 127.0F / std::fmax(max_abs, 1e-5F);
    std::int32_t sum = 0;
    for (std::int64_t i = 0; i < p.k; ++i) {
      const float q = std::fmin(std::fmax(std::nearbyint(x(i) * s), -128.0F), 127.0F);
      params.q[token * params.q_stride + i] = static_cast<std::int8_t>(q);
      sum += static_cast<std::int32_t>(q);
    }
    params.scales[token] = s;
    params.sums[token] = sum;
  }
  return {};
}

}  // namespace tern::activation_quantize
