// The reference for fake_quantize_backward: docs/numerics.md in code, each element found by its indices.
#include <cmath>
#include <vector>

#include "base/elements.h"
#include "ops/fake_quantize/fake_quantize.h"
#include "ops/fake_quantize_backward/fake_quantize_backward.h"
#include "ops/ordered_sum.h"

namespace tern::fake_quantize_backward {
namespace {

// Writes the gradient bit for bit, or 0 with its sign.
template <class Bits>
void pass_as(const Params& params, const affine::Place& place, bool inside) {
  const auto g = load_element<Bits>(params.grad_y.data, place.offset(params.grad_y.strides));
  const auto sign = static_cast<Bits>(g >> (8 * sizeof g - 1) << (8 * sizeof g - 1));
  store_element(params.grad_x.data, place.offset(params.grad_x.strides), inside ? g : sign);
}
void pass(const Params& params, const affine::Place& place, bool inside) {
  switch (size_of(params.problem.dtype)) {
    case 2: return pass_as<std::uint16_t>(params, place, inside);
    case 4: return pass_as<std::uint32_t>(params, place, inside);
    default: return pass_as<std::uint64_t>(params, place, inside);
  }
}

}  // namespace

extern const ReferenceTable reference;
constinit const ReferenceTable reference = {};

std::size_t reference_workspace(const ReferenceTable&, const FakeQuantizeBackward::Problem&, int) { return 0; }

Status reference_run(const ReferenceTable&, const Params& params, const Exec&) {
  const auto& p = params.problem;
  const std::int64_t k = affine::last_of(p.shape), elements = affine::rows_of(p.shape) * k;
  struct Terms {
    std::vector<double> steps, outside;
  };
  std::vector<Terms> ranges(static_cast<std::size_t>(p.qparam_gradients ? params.qparams.count : 0));
  for (std::int64_t i = 0; i < elements; ++i) {
    const affine::Place place = affine::place_of(p.shape, i);
    if (p.from_mask) {
      pass(params, place, params.mask[i / k * params.mask_row_bytes + i % k] != 0);
      continue;
    }
    double x = read_element(params.x.data, p.dtype, place.offset(params.x.strides));
    if (p.non_finite == NonFinite::saturate) x = saturated(x, p.dtype);
    if (!std::isfinite(x)) return affine::non_finite_error("fake_quantize_backward", params.x);
    const std::int64_t range = affine::range_of(p.shape, p.granularity, place);
    const double s = read_element(params.qparams.scales, p.scale_dtype, range);
    const int zp = p.zero_points ? load_element<std::int32_t>(params.qparams.zero_points, range) : 0;
    const auto e = fake_quantize::round_element(x, p.dtype, s, zp, {params.q, p.math, p.strict});
    pass(params, place, e.inside);
    if (!p.qparam_gradients) continue;
    const double g = read_element(params.grad_y.data, p.dtype, place.offset(params.grad_y.strides));
    Terms& terms = ranges[static_cast<std::size_t>(range)];
    terms.steps.push_back(g * (e.inside ? e.q_less_zp - e.v : e.q_less_zp));
    terms.outside.push_back(e.inside ? 0.0 : g);
  }
  for (std::size_t range = 0; range < ranges.size(); ++range) {
    const auto sum = [](const std::vector<double>& terms) {
      return ordered_sum(static_cast<std::int64_t>(terms.size()),
                         [&](std::int64_t i) { return terms[static_cast<std::size_t>(i)]; });
    };
    write_gradients(params, static_cast<std::int64_t>(range), sum(ranges[range].steps), sum(ranges[range].outside));
  }
  return {};
}

}  // namespace tern::fake_quantize_backward
