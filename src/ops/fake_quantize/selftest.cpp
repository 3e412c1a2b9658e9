// Compares a fake_quantize kernel with the reference on random problems, also with non-finite elements.
#include "base/errors.h"
#include "lab/fake_problems.h"
#include "lab/op_selftest.h"
#include "plan/run_once.h"

namespace tern::lab {
namespace {

struct Values {
  std::vector<std::byte> y, mask;
};

Result<Values> run(const Context& context, const std::string& kernel, const FakeInput& in) {
  const auto& p = in.problem;
  TERN_ASSIGN(plan, FakeQuantizePlan::select(context, p, {.kernel = kernel, .strict = true}));
  TERN_ASSIGN(count, affine_scale_count(p.shape, p.granularity));
  TERN_ASSIGN(elements, element_count(p.shape));
  Values result{std::vector(static_cast<std::size_t>(elements) * size_of(p.dtype), std::byte{0xEE}),
                std::vector(static_cast<std::size_t>(elements), std::byte{0xEE})};
  TERN_ASSIGN(x, upload(context, in.x.data(), p.dtype, p.shape));
  TERN_ASSIGN(scales, upload(context, in.scales.data(), p.scale_dtype, {count}));
  TERN_ASSIGN(zero_points, upload(context, in.zero_points.data(), DType::i32, {p.zero_points ? count : 0}));
  TERN_ASSIGN(y, upload(context, result.y.data(), p.dtype, p.shape));
  TERN_ASSIGN(mask, upload(context, result.mask.data(), DType::u8, p.shape));
  TERN_RETURN_IF_ERROR(run_once(
      context, plan,
      {.x = x.view(), .scales = scales.view(), .zero_points = zero_points.view(), .y = y.view(), .mask = mask.view()}));
  TERN_RETURN_IF_ERROR(download(context, y, result.y.data()));
  TERN_RETURN_IF_ERROR(download(context, mask, result.mask.data()));
  return result;
}

// If `broken` >= 0, that element is not finite: the kernel must report its index, or saturate it as the reference does.
Result<std::string> compare(const Context& context, const Context& cpu, const KernelDescription& kernel, FakeInput in,
                            std::int64_t broken) {
  if (broken >= 0) {
    std::string unnamed = unless_named(run(context, kernel.name, in), broken);
    if (!unnamed.empty()) return unnamed;
    in.problem.non_finite = NonFinite::saturate;
  }
  TERN_ASSIGN(want, run(cpu, reference_of(kernel), in));
  TERN_ASSIGN(got, run(context, kernel.name, in));
  const std::string y = first_difference("y", got.y, want.y, in.problem.dtype);
  return y.empty() ? first_difference("mask", got.mask, want.mask, DType::u8) : y;
}

}  // namespace

Result<Comparison> selftest_fake_quantize(const Context& context, const KernelDescription& kernel) {
  TERN_ASSIGN(format, parse_format(kernel.format));
  const Context cpu = reference_context();
  Comparison comparison;
  Random random(20240310);
  for (int repetition = 0; repetition < 60; ++repetition) {
    TERN_ASSIGN(dtype, random_dtype(random, kernel));
    FakeInput in = random_fake(random, dtype, format);
    TERN_ASSIGN(what, compare(context, cpu, kernel, in, -1));
    std::string difference = what;
    if (difference.empty()) {
      const std::int64_t at = break_element(random, dtype, in.x);
      TERN_ASSIGN(then, compare(context, cpu, kernel, in, at));
      difference = then;
    }
    ++comparison.problems;
    if (difference.empty()) continue;
    comparison.difference = fmt::format("{}: {}", describe_fake(in.problem), difference);
    return comparison;
  }
  return comparison;
}

}  // namespace tern::lab
