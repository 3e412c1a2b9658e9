// The slow reference of conv2d: docs/numerics.md as plain code, one output at a time, on one thread.
#include <cmath>
#include <utility>
#include <vector>

#include "base/elements.h"
#include "base/errors.h"
#include "base/half.h"
#include "ops/conv2d/conv2d.h"

namespace tern::conv2d {

extern const ReferenceTable reference;
constinit const ReferenceTable reference = {};

namespace {

// An image as the product sees it, in the order [channel][y][x]: int8 with its scale, or floats.
struct Pixels {
  std::vector<double> x;
  float s = 0;  // 0: nothing to divide by
};

Result<Pixels> read_image(const Params& p, std::int64_t image) {
  const Conv2d::Problem& c = p.problem;
  Pixels pixels;
  double largest = 0;
  for (std::int64_t channel = 0; channel < c.filters.in_channels * c.filters.groups; ++channel)
    for (std::int64_t y = 0; y < c.height; ++y)
      for (std::int64_t x = 0; x < c.width; ++x) {
        const std::int64_t at = image * p.x_at.image + channel * p.x_at.channel + y * p.x_at.row + x * p.x_at.pixel;
        if (c.x_dtype == DType::i8) {
          pixels.x.push_back(static_cast<const std::int8_t*>(p.x)[at]);
          continue;
        }
        double v = read_element(p.x, c.x_dtype, at);
        if (c.non_finite == NonFinite::saturate) v = saturated(v, c.x_dtype);
        if (!std::isfinite(v)) return non_finite_error(p);
        largest = std::fmax(largest, std::fabs(v));
        pixels.x.push_back(v);
      }
  if (p.x_scales != nullptr) pixels.s = load_element<float>(p.x_scales, image * p.x_scale_step);
  if (c.math == LinearMath::w2_float || c.x_dtype == DType::i8) return pixels;
  if (!c.scale_given) pixels.s = 127.0F / std::fmax(static_cast<float>(largest), 1e-5F);
  for (double& v : pixels.x)
    v = std::fmin(std::fmax(std::nearbyint(static_cast<float>(v) * pixels.s), -128.0F), 127.0F);
  return pixels;
}

// The sum over a window in f64, where int8 products and their sums are exact.
double dot(const Params& p, const Pixels& pixels, std::int64_t filter, std::int64_t oy, std::int64_t ox) {
  const Conv2d::Problem& c = p.problem;
  const std::int64_t row = p.order.row_of(filter), group = filter / p.order.group_filters;
  double sum = 0;
  for (std::int64_t channel = 0; channel < c.filters.in_channels; ++channel)
    for (std::int64_t ty = 0; ty < c.filters.height; ++ty)
      for (std::int64_t tx = 0; tx < c.filters.width; ++tx) {
        const std::int64_t y = oy * c.stride_h - c.padding.top + ty * c.dilation_h,
                           x = ox * c.stride_w - c.padding.left + tx * c.dilation_w;
        if (y < 0 || y >= c.height || x < 0 || x >= c.width) continue;
        const std::int64_t at = ((group * c.filters.in_channels + channel) * c.height + y) * c.width + x;
        sum += pixels.x[static_cast<std::size_t>(at)] *
               p.weights->tile.value(p.weights->codes, row, p.order.column_of(channel, ty, tx));
      }
  return sum;
}

void write_output(const Params& p, const Pixels& pixels, std::int64_t image, std::int64_t filter, std::int64_t oy,
                  std::int64_t ox) {
  const Conv2d::Problem& c = p.problem;
  const auto place = [&](const Image& at) {
    return image * at.image + filter * at.channel + oy * at.row + ox * at.pixel;
  };
  const double sum = dot(p, pixels, filter, oy, ox);
  if (c.y_dtype == DType::i32) return store_element(p.y, place(p.y_at), static_cast<std::int32_t>(sum));
  auto t = static_cast<float>(sum);
  if (c.math == LinearMath::w2a8) t = t / pixels.s;
  t = t * p.weights->scales[c.granularity.kind == Granularity::Kind::tensor ? 0 : p.order.row_of(filter)];
  if (c.bias) t = t + load_element<float>(p.bias, filter);
  if (c.activation != Activation::none) t = t < 0 ? 0.0F : t;
  if (c.activation == Activation::squared_relu) t = t * t;
  if (c.residual) t = t + static_cast<float>(read_element(p.residual, c.y_dtype, place(p.residual_at)));
  if (c.y_dtype == DType::f32) return store_element(p.y, place(p.y_at), t);
  store_element(p.y, place(p.y_at), c.y_dtype == DType::f16 ? half::to_f16(t) : half::to_bf16(t));
}

}  // namespace

std::size_t reference_workspace(const ReferenceTable&, const Conv2d::Problem&, int) { return 0; }

Status reference_run(const ReferenceTable&, const Params& p, const Exec&) {
  std::vector<Pixels> images;  // all of them first: where one is refused, nothing is written
  for (std::int64_t image = 0; image < p.images; ++image) {
    TERN_ASSIGN(pixels, read_image(p, image));
    images.push_back(std::move(pixels));
  }
  for (std::int64_t image = 0; image < p.images; ++image) {
    const Pixels& pixels = images[static_cast<std::size_t>(image)];
    for (std::int64_t filter = 0; filter < p.problem.filters.out_channels; ++filter)
      for (std::int64_t oy = 0; oy < p.height; ++oy)
        for (std::int64_t ox = 0; ox < p.width; ++ox) write_output(p, pixels, image, filter, oy, ox);
  }
  return {};
}

}  // namespace tern::conv2d
