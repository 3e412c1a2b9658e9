// Runs kernels on convolutions without a plan, between guard pages, and compares them with the truth; makes the cases
// that meet every pair of a grid's values.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/conv2d_truth.h"
#include "ops/conv2d/conv2d.h"
#include "tests/support/quantize_runner.h"

namespace tern::test {

using lab::conv_case;
using lab::ConvCase;
using lab::ConvData;
using lab::ConvTruth;
using lab::Random;

// Images with gaps along three axes, which end at a guard page: the last element is the last that may be touched. The
// gaps of an output must stay as they are.
class GuardedImages {
 public:
  using Gaps = std::array<std::int64_t, 3>;  // elements behind each line of the last axis, each plane, each image

  GuardedImages(DType dtype, const Shape& shape, const Gaps& gaps)
      : dtype_(dtype), size_(size_of(dtype)), shape_(shape), strides_(strides(shape, gaps)), bytes_(reach()) {}
  GuardedImages(DType dtype, const Shape& shape, const Gaps& gaps, const std::vector<std::byte>& from)
      : GuardedImages(dtype, shape, gaps) {
    each([&](std::size_t i, std::byte* at) { std::memcpy(at, from.data() + i * size_, size_); });
  }
  [[nodiscard]] TensorView view() {
    TensorView v(bytes_.data(), dtype_, shape_);
    v.strides = strides_;
    return v;
  }
  // The elements, without the gaps.
  std::vector<std::byte> elements() {
    std::vector<std::byte> all(static_cast<std::size_t>(*element_count(shape_)) * size_);
    each([&](std::size_t i, std::byte* at) { std::memcpy(all.data() + i * size_, at, size_); });
    return all;
  }
  // Whether all bytes of the gaps are those of fresh memory. Overwrites the elements.
  bool gaps_are_fresh() {
    each([&](std::size_t, std::byte* at) { std::memset(at, 0xEE, size_); });
    return std::all_of(bytes_.data(), bytes_.data() + bytes_.size(), [](std::byte b) { return b == std::byte{0xEE}; });
  }

 private:
  static Shape strides(const Shape& shape, const Gaps& gaps) {
    Shape strides = dense_strides(shape);
    strides[2] = shape[3] + gaps[0];
    strides[1] = shape[2] * strides[2] + gaps[1];
    strides[0] = shape[1] * strides[1] + gaps[2];
    return strides;
  }
  [[nodiscard]] std::size_t reach() const {
    std::int64_t last = 0;
    for (int axis = 0; axis < 4; ++axis) last += (shape_[axis] - 1) * strides_[axis];
    return shape_[0] == 0 ? 0 : static_cast<std::size_t>(last + 1) * size_;
  }
  template <class F>
  void each(F f) {
    std::size_t i = 0;
    for (std::int64_t a = 0; a < shape_[0]; ++a)
      for (std::int64_t b = 0; b < shape_[1]; ++b)
        for (std::int64_t c = 0; c < shape_[2]; ++c)
          for (std::int64_t d = 0; d < shape_[3]; ++d)
            f(i++, bytes_.data() +
                       static_cast<std::size_t>(a * strides_[0] + b * strides_[1] + c * strides_[2] + d) * size_);
  }
  DType dtype_;
  std::size_t size_;
  Shape shape_, strides_;
  Guarded<std::byte> bytes_;
};

struct ConvRun {
  int threads = 1;
  GuardedImages::Gaps x_gaps = {}, y_gaps = {}, residual_gaps = {};
  bool in_place = false;   // the residual is y itself
  bool one_scale = false;  // the first of x_scales is for all images
};

struct ConvResult {
  Status status;
  std::vector<std::byte> y = {};
  bool gaps_are_fresh = true;
};

inline PackedFilters packed_filters(const ConvCase& c) {
  static const Context context = *Context::open({.threads = 1});
  auto filters = c.pack(context);
  EXPECT_TRUE(filters.ok()) << filters.error().str() << c.text();
  return filters.ok() ? *filters : PackedFilters();
}

inline ConvResult run_conv(const KernelEntry& entry, const ConvCase& c, const PackedFilters& filters,
                           const ConvRun& how = {}) {
  const Conv2d::Problem& p = c.problem;
  const auto copied = [](const std::vector<float>& from) {
    auto to = std::make_unique<Guarded<float>>(from.size());
    std::ranges::copy(from, to->data());
    return to;
  };
  GuardedImages x(p.x_dtype, c.x_shape(), how.x_gaps, c.x), y(p.y_dtype, c.y_shape(), how.y_gaps);
  std::optional<GuardedImages> residual;
  std::vector<float> scales = c.x_scales;
  if (how.one_scale) scales.resize(1);
  const auto x_scales = copied(scales);
  const auto bias = copied(c.bias);
  Conv2d::Args args{.x = x.view(), .filters = filters, .y = y.view()};
  if (!c.x_scales.empty())
    args.x_scales = {x_scales->data(), DType::f32, {static_cast<std::int64_t>(x_scales->size())}};
  if (p.bias) args.bias = {bias->data(), DType::f32, {p.filters.out_channels}};
  ConvResult out;
  if (p.residual) {
    residual.emplace(p.y_dtype, c.y_shape(), how.in_place ? how.y_gaps : how.residual_gaps, c.residual);
    args.residual = residual->view();
    if (how.in_place) args.y = residual->view();
  }
  auto facts = OpTraits<Conv2d>::facts(p);
  if (!facts.ok()) {
    out.status = std::move(facts).error();
    return out;
  }
  auto params = OpTraits<Conv2d>::bind(p, args);
  if (!params.ok()) {
    out.status = std::move(params).error();
    return out;
  }
  if (!OpTraits<Conv2d>::empty(*params)) out.status = run_entry(entry, p, *params, how.threads);
  GuardedImages& written = p.residual && how.in_place ? *residual : y;
  out.y = written.elements();
  out.gaps_are_fresh = written.gaps_are_fresh();
  return out;
}

// The first element in which two results differ.
inline std::string first_difference(DType dtype, const std::vector<std::byte>& got,
                                    const std::vector<std::byte>& want) {
  const std::size_t size = size_of(dtype);
  for (std::size_t i = 0; i < want.size() / size; ++i)
    if (std::memcmp(got.data() + i * size, want.data() + i * size, size) != 0) {
      const auto at = static_cast<std::int64_t>(i);
      const auto value = [&](const std::vector<std::byte>& of) {
        return dtype == DType::i32 ? load_element<std::int32_t>(of.data(), at) : read_element(of.data(), dtype, at);
      };
      return fmt::format("element {} is {}, the truth is {}", i, value(got), value(want));
    }
  return {};
}

// Every CPU kernel of a format, the loops at emulated widths, and the reference. Under sanitizers the loops run at 16
// bytes only, as the scalar kernel: compiling the wider ones takes minutes.
inline std::vector<NamedKernel> listed_conv_kernels(Format format) {
  auto kernels = runnable_kernels("conv2d", format);
  kernels.push_back({"reference", reference_kernel("conv2d", format)});
  return kernels;
}

// Expects what the truth says, from every kernel: its bits, or in a float mode a result within its bound, with the same
// bits from all kernels but the reference.
inline void expect_truth(const ConvCase& c, const std::vector<NamedKernel>& kernels, const ConvRun& how = {}) {
  const PackedFilters filters = packed_filters(c);
  const ConvTruth truth(c);
  const bool floats = c.problem.math == LinearMath::w2_float;
  const std::vector<std::byte> want = floats ? std::vector<std::byte>() : truth.bits();
  std::vector<std::byte> first;
  for (const NamedKernel& kernel : kernels) {
    const ConvResult got = run_conv(kernel.entry, c, filters, how);
    ASSERT_TRUE(got.status.ok()) << kernel.name << ' ' << got.status.error().str() << "; " << c.text();
    ASSERT_TRUE(got.gaps_are_fresh) << kernel.name << " wrote between the rows of y; " << c.text();
    if (!floats) {
      ASSERT_TRUE(same_bytes(got.y, want)) << kernel.name << ' ' << how.threads << " threads, " << c.text() << ": "
                                           << first_difference(c.problem.y_dtype, got.y, want);
      continue;
    }
    const bool seen = !first.empty() && kernel.name != "reference" && same_bytes(got.y, first);
    ASSERT_EQ(seen ? "" : truth.beyond_bound(got.y), "") << kernel.name << ", " << c.text();
    if (kernel.name == "reference") continue;
    if (first.empty()) first = got.y;
    ASSERT_TRUE(same_bytes(got.y, first)) << kernel.name << " has other bits than the best kernel, " << c.text();
  }
}

// --- grids

// Cases of a grid: an index of each axis's value.
using GridCase = std::vector<std::int64_t>;
struct Grid {
  std::vector<std::int64_t> sizes;  // values of each axis
  // Whether a case can be. Going towards `easiest` along any axis never makes a case impossible.
  std::function<bool(const GridCase&)> possible;
  GridCase easiest;
  std::function<double(const GridCase&)> cost;
};

// A set of cases in which every possible pair of values of two axes meets, most of them once: greedy, from a fixed
// seed. Each next case has the first pair that is left and, of some random completions, the most others; of equals the
// cheapest.
inline std::vector<GridCase> pairwise(const Grid& grid) {
  const auto axes = static_cast<std::int64_t>(grid.sizes.size());
  std::vector<std::int64_t> first_value = {0};
  for (const std::int64_t size : grid.sizes) first_value.push_back(first_value.back() + size);
  const std::int64_t values = first_value.back();
  std::vector<bool> met(static_cast<std::size_t>(values * values));
  const auto each_pair = [&](const GridCase& c, auto f) {
    for (std::int64_t a = 0; a < axes; ++a)
      for (std::int64_t b = a + 1; b < axes; ++b)
        f(static_cast<std::size_t>((first_value[static_cast<std::size_t>(a)] + c[static_cast<std::size_t>(a)]) *
                                       values +
                                   first_value[static_cast<std::size_t>(b)] + c[static_cast<std::size_t>(b)]));
  };
  std::vector<GridCase> cases;
  Random random(5);
  const auto add_with = [&](std::int64_t a, std::int64_t i, std::int64_t b, std::int64_t j) {
    GridCase base = grid.easiest;
    base[static_cast<std::size_t>(a)] = i;
    base[static_cast<std::size_t>(b)] = j;
    if (!grid.possible(base)) return;
    GridCase best;
    std::int64_t most = -1;
    double cost = 0;
    for (int attempt = 0; attempt < 60; ++attempt) {
      GridCase c = base;
      // Axes in a random order take random values, unless that makes the case impossible.
      for (std::int64_t n = 0, axis = random.below(axes); n < axes; ++n, axis = (axis + 1) % axes) {
        if (axis == a || axis == b) continue;
        std::int64_t& value = c[static_cast<std::size_t>(axis)];
        const std::int64_t before = std::exchange(value, random.below(grid.sizes[static_cast<std::size_t>(axis)]));
        if (!grid.possible(c)) value = before;
      }
      std::int64_t fresh = 0;
      each_pair(c, [&](std::size_t pair) { fresh += met[pair] ? 0 : 1; });
      const double its_cost = grid.cost(c);
      if (fresh < most || (fresh == most && its_cost >= cost)) continue;
      best = c;
      most = fresh;
      cost = its_cost;
    }
    each_pair(best, [&](std::size_t pair) { met[pair] = true; });
    cases.push_back(std::move(best));
  };
  for (std::int64_t a = 0; a < axes; ++a)
    for (std::int64_t b = a + 1; b < axes; ++b)
      for (std::int64_t i = 0; i < grid.sizes[static_cast<std::size_t>(a)]; ++i)
        for (std::int64_t j = 0; j < grid.sizes[static_cast<std::size_t>(b)]; ++j)
          if (!met[static_cast<std::size_t>((first_value[static_cast<std::size_t>(a)] + i) * values +
                                            first_value[static_cast<std::size_t>(b)] + j)])
            add_with(a, i, b, j);
  return cases;
}

// The values of the grid of convolutions.
inline constexpr std::int64_t kConvTaps[] = {1, 2, 3, 5, 7, 11}, kConvChannels[] = {1, 3, 31, 32, 33, 64},
                              kConvImages[] = {1, 2, 5};
inline constexpr std::pair<std::int64_t, std::int64_t> kConvMaps[] = {{1, 1},  {2, 3},   {5, 4},  {7, 8},
                                                                      {13, 9}, {16, 31}, {65, 63}};
inline constexpr std::int64_t kConvGroups = 4;  // 1, 2, depthwise, depthwise with two filters a channel

// Sets the channels of one group, and groups and filters of the kind: about `filters` filters in all.
inline void set_groups(FilterShape& f, std::int64_t kind, std::int64_t channels, std::int64_t filters) {
  f.in_channels = kind < 2 ? channels : 1;
  f.groups = kind == 0 ? 1 : kind == 1 ? 2 : channels;
  const std::int64_t each = kind == 0 ? filters : kind == 1 ? (filters + 1) / 2 : kind - 1;
  f.out_channels = f.groups * std::max<std::int64_t>(1, each);
}

// Products of a problem that makes sense.
inline double products_of(const Conv2d::Problem& p) {
  const auto y = Conv2d::output_size(p);
  return static_cast<double>(p.images * y->height * y->width) * static_cast<double>(p.filters.out_channels) *
         static_cast<double>(conv2d::canonical_columns(p.filters));
}

}  // namespace tern::test
