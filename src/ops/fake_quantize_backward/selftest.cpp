// Compares a fake_quantize_backward kernel with the reference on random problems.
#include "base/errors.h"
#include "lab/fake_problems.h"
#include "lab/op_selftest.h"
#include "plan/run_once.h"

namespace tern::lab {
namespace {

struct Gradients {
  std::vector<std::byte> x, scales, zero_points;
};

Result<Gradients> run(const Context& context, const std::string& kernel, const BackwardInput& in) {
  const auto& p = in.problem;
  TERN_ASSIGN(plan, FakeQuantizeBackwardPlan::select(context, p, {.kernel = kernel, .strict = true}));
  TERN_ASSIGN(count, affine_scale_count(p.shape, p.granularity));
  Gradients result{std::vector(in.grad_y.size(), std::byte{0xEE}), std::vector(in.scales.size(), std::byte{0xEE}),
                   std::vector(in.scales.size(), std::byte{0xEE})};
  TERN_ASSIGN(grad_y, upload(context, in.grad_y.data(), p.dtype, p.shape));
  TERN_ASSIGN(x, upload(context, in.x.data(), p.dtype, p.shape));
  TERN_ASSIGN(scales, upload(context, in.scales.data(), p.scale_dtype, {count}));
  TERN_ASSIGN(zero_points, upload(context, in.zero_points.data(), DType::i32, {p.zero_points ? count : 0}));
  TERN_ASSIGN(mask, upload(context, in.mask.data(), DType::u8, p.shape));
  TERN_ASSIGN(grad_x, upload(context, result.x.data(), p.dtype, p.shape));
  TERN_ASSIGN(grad_scales, upload(context, result.scales.data(), p.scale_dtype, {count}));
  TERN_ASSIGN(grad_zero_points, upload(context, result.zero_points.data(), p.scale_dtype, {count}));
  TERN_RETURN_IF_ERROR(run_once(context, plan,
                                {.grad_y = grad_y.view(),
                                 .x = x.view(),
                                 .scales = scales.view(),
                                 .zero_points = zero_points.view(),
                                 .mask = mask.view(),
                                 .grad_x = grad_x.view(),
                                 .grad_scales = grad_scales.view(),
                                 .grad_zero_points = grad_zero_points.view()}));
  TERN_RETURN_IF_ERROR(download(context, grad_x, result.x.data()));
  TERN_RETURN_IF_ERROR(download(context, grad_scales, result.scales.data()));
  TERN_RETURN_IF_ERROR(download(context, grad_zero_points, result.zero_points.data()));
  return result;
}

}  // namespace

Result<Comparison> selftest_fake_quantize_backward(const Context& context, const KernelDescription& kernel) {
  TERN_ASSIGN(format, parse_format(kernel.format));
  const Context cpu = reference_context();
  Comparison comparison;
  Random random(20240311);
  for (int repetition = 0; repetition < 80; ++repetition) {
    TERN_ASSIGN(dtype, random_dtype(random, kernel));
    const BackwardInput in = random_backward(random, dtype, format);
    TERN_ASSIGN(want, run(cpu, reference_of(kernel), in));
    TERN_ASSIGN(got, run(context, kernel.name, in));
    ++comparison.problems;
    std::string what = first_difference("grad_x", got.x, want.x, dtype);
    if (what.empty()) what = first_difference("grad_scales", got.scales, want.scales, in.problem.scale_dtype);
    if (what.empty())
      what = first_difference("grad_zero_points", got.zero_points, want.zero_points, in.problem.scale_dtype);
    if (what.empty()) continue;
    comparison.difference = fmt::format("{}: {}", describe_fake(in.problem), what);
    return comparison;
  }
  return comparison;
}

}  // namespace tern::lab
