// The truth of conv2d for tests and the selftest: docs/numerics.md implemented a second time, slowly, from canonical
// codes and scales. It knows nothing of packing, tiles or staging.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/elements.h"
#include "base/fmt.h"
#include "format/format.h"
#include "format/ranges.h"
#include "lab/linear_truth.h"
#include "lab/ternary_problems.h"
#include "tern/conv2d.h"

namespace tern::lab {

// A problem with its data, dense, in the types and orders of the problem.
struct ConvCase {
  Conv2d::Problem problem;
  Conv2d::Size y;
  std::vector<std::byte> x, codes, residual;
  std::vector<float> x_scales, w_scales, bias;

  [[nodiscard]] std::int64_t channels() const { return problem.filters.in_channels * problem.filters.groups; }
  [[nodiscard]] std::int64_t k() const {
    return problem.filters.in_channels * problem.filters.height * problem.filters.width;
  }
  [[nodiscard]] Shape x_shape() const { return shape(problem.x_order, channels(), {problem.height, problem.width}); }
  [[nodiscard]] Shape y_shape() const { return shape(problem.y_order, problem.filters.out_channels, y); }
  [[nodiscard]] Result<PackedFilters> pack(const Context& context) const {
    const Conv2d::Problem& p = problem;
    const std::int64_t n = p.filters.out_channels;
    return PackedFilters::pack(context, {codes.data(), code_dtype(p.format), {n, row_bytes(p.format, k())}},
                               {w_scales.data(), DType::f32, {static_cast<std::int64_t>(w_scales.size())}}, p.filters,
                               p.granularity, p.format);
  }
  [[nodiscard]] std::string text() const {
    const Conv2d::Problem& p = problem;
    return fmt::format(
        "{} images of {} x {} x {} {} {}, {} filters of {} x {} x {} {} in {} groups, stride {} {}, dilation {} {}, "
        "padding {} {} {} {}, y {} {}, {}",
        p.images, channels(), p.height, p.width, name(p.x_dtype), name(p.x_order), p.filters.out_channels,
        p.filters.in_channels, p.filters.height, p.filters.width, name(p.format), p.filters.groups, p.stride_h,
        p.stride_w, p.dilation_h, p.dilation_w, p.padding.top, p.padding.bottom, p.padding.left, p.padding.right,
        name(p.y_dtype), name(p.y_order), name(p.math));
  }

 private:
  [[nodiscard]] Shape shape(ImageOrder order, std::int64_t c, Conv2d::Size size) const {
    return order == ImageOrder::nchw ? Shape{problem.images, c, size.height, size.width}
                                     : Shape{problem.images, size.height, size.width, c};
  }
};

// What activations and weights are like. The last two make narrow sums overflow.
enum class ConvData { random, largest, smallest, alternating };
inline constexpr ConvData kConvData[] = {ConvData::random, ConvData::largest, ConvData::smallest,
                                         ConvData::alternating};

inline ConvCase conv_case(Random& random, const Conv2d::Problem& p, ConvData data) {
  ConvCase c{.problem = p, .y = *Conv2d::output_size(p)};
  const std::int64_t elements = p.images * c.channels() * p.height * p.width, n = p.filters.out_channels;
  const auto size = static_cast<std::int64_t>(size_of(p.x_dtype));
  c.x.resize(static_cast<std::size_t>(elements * size));
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::int64_t v = data == ConvData::largest    ? 127
                           : data == ConvData::smallest ? -128
                           : data == ConvData::random   ? random.below(256) - 128
                           : i % 2 == 0                 ? 127
                                                        : -128;
    if (p.x_dtype == DType::i8)
      c.x[static_cast<std::size_t>(i)] = static_cast<std::byte>(v);
    else
      write_element(c.x.data(), p.x_dtype, i, static_cast<double>(v) * 0.013);
  }
  CodeRange range = weight_range(p.format);
  if (data != ConvData::random)
    (random.below(2) == 0 ? range.min : range.max) = range.min + (range.max - range.min) / 2;
  if (data == ConvData::largest) range.min = range.max;
  if (data == ConvData::smallest) range.max = range.min;
  c.codes = random_codes(random, p.format, n, c.k(), range);
  const auto odd = [&] { return 0.001F + std::fabs(random.gaussian()); };
  for (std::int64_t i = 0; i < make_ranges(n, c.k(), p.granularity).total; ++i) c.w_scales.push_back(odd());
  if (p.x_dtype == DType::i8 || p.scale_given)
    for (std::int64_t i = 0; i < p.images; ++i) c.x_scales.push_back((p.scale_given ? 100 : 30) * odd());
  if (p.bias)
    for (std::int64_t i = 0; i < n; ++i) c.bias.push_back(odd() - 1);
  if (p.residual)
    for (std::int64_t i = 0; i < p.images * n * c.y.height * c.y.width; ++i)
      append_stored(c.residual, random.gaussian(), p.y_dtype);
  return c;
}

class ConvTruth {
 public:
  explicit ConvTruth(const ConvCase& of) : c_(of), p_(of.problem) {
    const std::int64_t per_image = c_.channels() * p_.height * p_.width;
    for (std::int64_t image = 0; image < p_.images; ++image) {
      std::vector<float> x;
      float max_abs = 0;
      for (std::int64_t i = 0; i < per_image; ++i) {
        if (p_.x_dtype == DType::i8) {
          x.push_back(
              static_cast<float>(static_cast<std::int8_t>(c_.x[static_cast<std::size_t>(image * per_image + i)])));
          continue;
        }
        double v = read_element(c_.x.data(), p_.x_dtype, image * per_image + i);
        if (p_.non_finite == NonFinite::saturate) v = saturated(v, p_.x_dtype);
        x.push_back(static_cast<float>(v));
        max_abs = std::fmax(max_abs, std::fabs(x.back()));
      }
      float s = c_.x_scales.empty() ? 1 : c_.x_scales[static_cast<std::size_t>(image)];
      if (p_.x_dtype != DType::i8 && p_.math == LinearMath::w2a8) {
        if (!p_.scale_given) s = 127.0F / std::fmax(max_abs, 1e-5F);
        for (float& v : x) v = std::fmin(std::fmax(std::nearbyint(v * s), -128.0F), 127.0F);
      }
      s_.push_back(s);
      x_.insert(x_.end(), x.begin(), x.end());
    }
    const std::int64_t line = row_bytes(p_.format, c_.k());
    for (std::int64_t filter = 0; filter < p_.filters.out_channels; ++filter)
      for (std::int64_t i = 0; i < c_.k(); ++i)
        w_.push_back(static_cast<std::int8_t>(
            read_code(p_.format, reinterpret_cast<const std::uint8_t*>(c_.codes.data()) + filter * line, i)));
  }

  // The bytes of y in the exact mode.
  [[nodiscard]] std::vector<std::byte> bits() const {
    std::vector<std::byte> y;
    each_output([&](std::int64_t image, std::int64_t filter, std::int64_t oy, std::int64_t ox, std::size_t at) {
      const auto sum = static_cast<std::int64_t>(window(image, filter, oy, ox).sum);
      if (p_.y_dtype == DType::i32) return append_value(y, static_cast<std::int32_t>(sum));
      float t = static_cast<float>(sum) / s_[static_cast<std::size_t>(image)];
      t = t * scale(filter);
      if (p_.bias) t = t + c_.bias[static_cast<std::size_t>(filter)];
      if (p_.activation != Activation::none && t < 0) t = 0;
      if (p_.activation == Activation::squared_relu) t = t * t;
      if (p_.residual) t = t + residual(at);
      append_stored(y, t, p_.y_dtype);
    });
    return y;
  }

  // Whether y, of a float mode, is within its bound everywhere; otherwise says where not. Activations are not looked at
  // in products close to 0, so problems have none here.
  [[nodiscard]] std::string beyond_bound(const std::vector<std::byte>& y) const {
    std::string what;
    each_output([&](std::int64_t image, std::int64_t filter, std::int64_t oy, std::int64_t ox, std::size_t at) {
      if (!what.empty()) return;
      const Window w = window(image, filter, oy, ox);
      const auto w_scale = static_cast<double>(scale(filter));
      const double bias = p_.bias ? static_cast<double>(c_.bias[static_cast<std::size_t>(filter)]) : 0;
      const double more = p_.residual ? static_cast<double>(residual(at)) : 0;
      const double want = w.sum * w_scale + bias + more;
      const double size = w.size * w_scale + std::fabs(bias) + std::fabs(more);
      const double got = read_element(y.data(), p_.y_dtype, static_cast<std::int64_t>(at));
      const int bits = p_.y_dtype == DType::f32 ? 24 : p_.y_dtype == DType::f16 ? 11 : 8;
      const double half_ulp =
          want == 0 ? 0x1p-150
                    : std::ldexp(1.0, std::max(std::ilogb(want), p_.y_dtype == DType::f16 ? -14 : -126) - bits);
      if (std::fabs(got - want) > 1e-5 * size + 1.01 * half_ulp)
        what = fmt::format("element {} is {}, the truth is {}", at, got, want);
    });
    return what;
  }

 private:
  struct Window {
    double sum = 0, size = 0;
  };
  [[nodiscard]] Window window(std::int64_t image, std::int64_t filter, std::int64_t oy, std::int64_t ox) const {
    const FilterShape& f = p_.filters;
    const std::int64_t first = filter / (f.out_channels / f.groups) * f.in_channels;
    Window all;
    for (std::int64_t ty = 0; ty < f.height; ++ty)
      for (std::int64_t tx = 0; tx < f.width; ++tx) {
        const std::int64_t y = oy * p_.stride_h + ty * p_.dilation_h - p_.padding.top;
        const std::int64_t x = ox * p_.stride_w + tx * p_.dilation_w - p_.padding.left;
        if (y < 0 || x < 0 || y >= p_.height || x >= p_.width) continue;
        for (std::int64_t c = 0; c < f.in_channels; ++c) {
          const std::int64_t channel = first + c;
          const std::int64_t at = p_.x_order == ImageOrder::nchw
                                      ? ((image * c_.channels() + channel) * p_.height + y) * p_.width + x
                                      : ((image * p_.height + y) * p_.width + x) * c_.channels() + channel;
          const double product = static_cast<double>(x_[static_cast<std::size_t>(at)]) *
                                 w_[static_cast<std::size_t>(filter * c_.k() + (c * f.height + ty) * f.width + tx)];
          all.sum += product;
          all.size += std::fabs(product);
        }
      }
    return all;
  }
  // f(image, filter, y, x, index) in the order of y.
  template <class F>
  void each_output(F f) const {
    std::size_t at = 0;
    const std::int64_t n = p_.filters.out_channels;
    for (std::int64_t image = 0; image < p_.images; ++image) {
      if (p_.y_order == ImageOrder::nchw) {
        for (std::int64_t filter = 0; filter < n; ++filter)
          for (std::int64_t y = 0; y < c_.y.height; ++y)
            for (std::int64_t x = 0; x < c_.y.width; ++x) f(image, filter, y, x, at++);
      } else {
        for (std::int64_t y = 0; y < c_.y.height; ++y)
          for (std::int64_t x = 0; x < c_.y.width; ++x)
            for (std::int64_t filter = 0; filter < n; ++filter) f(image, filter, y, x, at++);
      }
    }
  }
  [[nodiscard]] float scale(std::int64_t filter) const {
    return c_.w_scales[p_.granularity.kind == Granularity::Kind::tensor ? 0 : static_cast<std::size_t>(filter)];
  }
  [[nodiscard]] float residual(std::size_t at) const {
    return static_cast<float>(read_element(c_.residual.data(), p_.y_dtype, static_cast<std::int64_t>(at)));
  }

  const ConvCase& c_;
  const Conv2d::Problem& p_;
  std::vector<float> x_;  // in the order of x; int8 as they are
  std::vector<float> s_;
  std::vector<std::int8_t> w_;
};

}  // namespace tern::lab
