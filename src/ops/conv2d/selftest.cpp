// Compares a conv2d kernel, or the reference, with a truth computed from canonical codes: exact sums to the bit, also
// on inputs that overflow narrow sums; float modes within their bound.
#include "base/errors.h"
#include "lab/conv2d_truth.h"
#include "lab/op_selftest.h"
#include "plan/run_once.h"

namespace tern::lab {
namespace {

Conv2d::Problem random_problem(Random& random, Format format, bool exact) {
  constexpr std::int64_t kChannels[] = {1, 3, 4, 16, 20, 31, 32, 33, 64}, kTaps[] = {1, 1, 2, 3, 3, 3, 5, 7};
  constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16};
  const auto order = [&] { return random.below(2) == 0 ? ImageOrder::nchw : ImageOrder::nhwc; };
  const auto some = [&] { return random.below(2) == 0; };
  Conv2d::Problem p{.images = 1 + random.below(3),
                    .height = 1 + random.below(12),
                    .width = 1 + random.below(20),
                    .stride_h = 1 + random.below(3),
                    .stride_w = 1 + random.below(3),
                    .dilation_h = 1 + random.below(2),
                    .dilation_w = 1 + random.below(2),
                    .padding = {random.below(4), random.below(4), random.below(4), random.below(4)},
                    .x_order = order(),
                    .y_order = order(),
                    .math = exact ? LinearMath::w2a8 : LinearMath::w2_float,
                    .format = format,
                    .granularity = some() ? Granularity::tensor() : Granularity::row(),
                    .bias = some(),
                    .residual = some()};
  FilterShape& f = p.filters;
  f = {.out_channels = 1 + random.below(50),
       .in_channels = kChannels[random.below(9)],
       .height = kTaps[random.below(8)],
       .width = kTaps[random.below(8)]};
  if (random.below(4) == 0) {  // two groups, or depthwise with a multiplier
    const bool depthwise = some();
    f.groups = depthwise ? f.in_channels : 2;
    f.in_channels = depthwise ? 1 : f.in_channels;
    f.out_channels = f.groups * (1 + random.below(depthwise ? 2 : 20));
  }
  // The image becomes as large as the filter needs.
  p.height += std::max<std::int64_t>(0, (f.height - 1) * p.dilation_h - p.padding.top - p.padding.bottom);
  p.width += std::max<std::int64_t>(0, (f.width - 1) * p.dilation_w - p.padding.left - p.padding.right);
  p.x_dtype = exact && random.below(3) != 0 ? DType::i8 : kFloats[random.below(3)];
  p.y_dtype = kFloats[random.below(3)];
  if (!exact) return p;
  p.scale_given = p.x_dtype != DType::i8 && random.below(4) == 0;
  p.activation = static_cast<Activation>(random.below(3));
  if (random.below(5) != 0) return p;
  p.y_dtype = DType::i32;
  p.bias = p.residual = false;
  p.activation = Activation::none;
  return p;
}

Result<std::vector<std::byte>> run(const Context& context, const std::string& kernel, const ConvCase& c) {
  const Conv2d::Problem& p = c.problem;
  TERN_ASSIGN(filters, c.pack(context));
  TERN_ASSIGN(plan, Conv2dPlan::select(context, p, {.kernel = kernel, .strict = true}));
  const Shape y_shape = c.y_shape();
  std::vector<std::byte> y(static_cast<std::size_t>(*element_count(y_shape)) * size_of(p.y_dtype), std::byte{0xEE});
  Conv2d::Args args{.x = {c.x.data(), p.x_dtype, c.x_shape()},
                    .filters = filters,
                    .bias = {c.bias.data(), DType::f32, {static_cast<std::int64_t>(c.bias.size())}},
                    .residual = {c.residual.data(), p.y_dtype, y_shape},
                    .y = {y.data(), p.y_dtype, y_shape}};
  if (!c.x_scales.empty()) args.x_scales = {c.x_scales.data(), DType::f32, {p.images}};
  TERN_RETURN_IF_ERROR(run_once(context, plan, args));
  return y;
}

// Describes the first wrong element; empty if there is none.
std::string wrong_element(const ConvCase& c, const std::vector<std::byte>& got) {
  const ConvTruth truth(c);
  if (c.problem.math == LinearMath::w2_float) return truth.beyond_bound(got);
  return lab::difference(std::vector{Written{"y", c.problem.y_dtype, got}},
                         std::vector{Written{"y", c.problem.y_dtype, truth.bits()}});
}

}  // namespace

template <>
Result<Comparison> own_selftest<Conv2d>(const Context& context, const KernelDescription& kernel) {
  TERN_ASSIGN(format, parse_format(kernel.format));
  Comparison comparison;
  Random random(20261119);
  for (const bool exact : {true, false})
    for (int repetition = 0; repetition < (exact ? 120 : is_trits(format) ? 40 : 0); ++repetition) {
      const Conv2d::Problem problem = random_problem(random, format, exact);
      const ConvCase c = conv_case(random, problem, kConvData[random.below(4)]);
      TERN_ASSIGN(taken, takes<Conv2d>(context, kernel.name, problem, comparison));
      if (!taken) continue;
      TERN_ASSIGN(got, run(context, kernel.name, c));
      ++comparison.problems;
      const std::string what = wrong_element(c, got);
      if (what.empty()) continue;
      comparison.difference = fmt::format("{}: {}", c.text(), what);
      return comparison;
    }
  return comparison;
}

}  // namespace tern::lab
