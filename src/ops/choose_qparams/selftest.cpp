// Compares a choose_qparams kernel with the reference on random problems, also with non-finite elements.
#include "base/errors.h"
#include "lab/op_selftest.h"
#include "lab/qparams_problems.h"
#include "plan/run_once.h"

namespace tern::lab {
namespace {

struct Qparams {
  std::vector<std::byte> scales;
  std::vector<std::int32_t> zero_points;
  friend bool operator==(const Qparams&, const Qparams&) = default;
};

Result<Qparams> run(const Context& context, const std::string& kernel, const QparamsInput& in) {
  const auto& p = in.problem;
  TERN_ASSIGN(plan, ChooseQparamsPlan::select(context, p, {.kernel = kernel, .strict = true}));
  TERN_ASSIGN(count, affine_scale_count(p.shape, p.granularity));
  Qparams result{std::vector(static_cast<std::size_t>(count) * size_of(p.scale_dtype), std::byte{0xEE}),
                 std::vector(p.zero_points ? static_cast<std::size_t>(count) : 0U, 0x7EEE)};
  TERN_ASSIGN(x, upload(context, in.x.data(), p.dtype, p.shape));
  TERN_ASSIGN(scales, upload(context, result.scales.data(), p.scale_dtype, {count}));
  TERN_ASSIGN(zero_points, upload(context, result.zero_points.data(), DType::i32, {p.zero_points ? count : 0}));
  TERN_RETURN_IF_ERROR(
      run_once(context, plan, {.x = x.view(), .scales = scales.view(), .zero_points = zero_points.view()}));
  TERN_RETURN_IF_ERROR(download(context, scales, result.scales.data()));
  TERN_RETURN_IF_ERROR(download(context, zero_points, result.zero_points.data()));
  return result;
}

}  // namespace

Result<Comparison> selftest_choose_qparams(const Context& context, const KernelDescription& kernel) {
  TERN_ASSIGN(format, parse_format(kernel.format));
  const Context cpu = reference_context();
  Comparison comparison;
  Random random(20240909);
  for (int repetition = 0; repetition < 60; ++repetition) {
    TERN_ASSIGN(dtype, random_dtype(random, kernel));
    QparamsInput in = random_qparams(random, dtype, format);
    std::string what;
    for (const bool broken : {false, true}) {
      if (broken) {
        const std::int64_t at = break_element(random, dtype, in.x);
        what = unless_named(run(context, kernel.name, in), at);
        in.problem.non_finite = NonFinite::saturate;
        if (dtype == DType::f64) in.problem.scale_dtype = dtype;  // f32 does not hold the scale of the largest f64
      }
      TERN_ASSIGN(want, run(cpu, reference_of(kernel), in));
      TERN_ASSIGN(got, run(context, kernel.name, in));
      if (got != want) what = broken ? "scales of saturated elements differ" : "scales or zero points differ";
      if (!what.empty()) break;
    }
    ++comparison.problems;
    if (what.empty()) continue;
    comparison.difference = fmt::format("{}: {}", describe_choice(in.problem), what);
    return comparison;
  }
  return comparison;
}

}  // namespace tern::lab
