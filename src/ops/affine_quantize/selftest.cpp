// Compares an affine_quantize kernel with the reference on random problems, also with non-finite elements.
#include "base/errors.h"
#include "lab/affine_problems.h"
#include "lab/op_selftest.h"
#include "plan/run_once.h"

namespace tern::lab {
namespace {

Result<std::vector<std::uint8_t>> run(const Context& context, const std::string& kernel, const AffineInput& in) {
  const auto& p = in.problem;
  TERN_ASSIGN(plan, AffineQuantizePlan::select(context, p, {.kernel = kernel, .strict = true}));
  TERN_ASSIGN(count, affine_scale_count(p.shape, p.granularity));
  Shape shape = p.shape;
  shape[shape.rank() - 1] = row_bytes(p.format, shape[shape.rank() - 1]);
  TERN_ASSIGN(bytes, element_count(shape));
  std::vector<std::uint8_t> result(static_cast<std::size_t>(bytes), 0xEE);
  TERN_ASSIGN(x, upload(context, in.x.data(), p.dtype, p.shape));
  TERN_ASSIGN(scales, upload(context, in.scales.data(), p.scale_dtype, {count}));
  TERN_ASSIGN(zero_points, upload(context, in.zero_points.data(), DType::i32, {p.zero_points ? count : 0}));
  TERN_ASSIGN(codes, upload(context, result.data(), code_dtype(p.format), shape));
  TERN_RETURN_IF_ERROR(
      run_once(context, plan,
               {.x = x.view(), .scales = scales.view(), .zero_points = zero_points.view(), .codes = codes.view()}));
  TERN_RETURN_IF_ERROR(download(context, codes, result.data()));
  return result;
}

// Makes one element non-finite. The kernel must report its index, or saturate it as the reference does.
Result<std::string> broken(const Context& context, const Context& cpu, const KernelDescription& kernel, AffineInput in,
                           Random& random) {
  const std::int64_t at = break_element(random, in.problem.dtype, in.x);
  std::string unnamed = unless_named(run(context, kernel.name, in), at);
  if (!unnamed.empty()) return unnamed;
  in.problem.non_finite = NonFinite::saturate;
  TERN_ASSIGN(want, run(cpu, reference_of(kernel), in));
  TERN_ASSIGN(got, run(context, kernel.name, in));
  return got == want ? std::string() : std::string("saturated codes differ");
}

}  // namespace

Result<Comparison> selftest_affine_quantize(const Context& context, const KernelDescription& kernel) {
  TERN_ASSIGN(format, parse_format(kernel.format));
  const Context cpu = reference_context();
  Comparison comparison;
  Random random(20240308);
  for (int repetition = 0; repetition < 120; ++repetition) {
    TERN_ASSIGN(dtype, random_dtype(random, kernel));
    const AffineInput in = random_affine(random, dtype, format);
    TERN_ASSIGN(want, run(cpu, reference_of(kernel), in));
    TERN_ASSIGN(got, run(context, kernel.name, in));
    std::string what;
    for (std::size_t i = 0; i < want.size() && what.empty(); ++i)
      if (got[i] != want[i]) what = fmt::format("byte {} is {:#x}, the reference has {:#x}", i, got[i], want[i]);
    if (what.empty()) {
      TERN_ASSIGN(refusal, broken(context, cpu, kernel, in, random));
      what = refusal;
    }
    ++comparison.problems;
    if (what.empty()) continue;
    comparison.difference = fmt::format("{}: {}", describe(in.problem), what);
    return comparison;
  }
  return comparison;
}

}  // namespace tern::lab
