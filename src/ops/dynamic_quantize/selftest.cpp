// Compares a dynamic_quantize kernel with the reference on random problems, also with non-finite elements.
#include "base/errors.h"
#include "lab/op_selftest.h"
#include "lab/qparams_problems.h"
#include "plan/run_once.h"

namespace tern::lab {
namespace {

struct Quantized {
  std::vector<std::uint8_t> codes;
  std::vector<std::byte> scales;
  std::vector<std::int32_t> zero_points;
  friend bool operator==(const Quantized&, const Quantized&) = default;
};

Result<Quantized> run(const Context& context, const std::string& kernel, const DynamicQuantize::Problem& p,
                      const std::vector<std::byte>& elements) {
  TERN_ASSIGN(plan, DynamicQuantizePlan::select(context, p, {.kernel = kernel, .strict = true}));
  TERN_ASSIGN(count, affine_scale_count(p.shape, p.granularity));
  Shape shape = p.shape;
  shape[shape.rank() - 1] = row_bytes(p.format, shape[shape.rank() - 1]);
  TERN_ASSIGN(bytes, element_count(shape));
  Quantized result{std::vector(static_cast<std::size_t>(bytes), std::uint8_t{0xEE}),
                   std::vector(static_cast<std::size_t>(count) * size_of(p.scale_dtype), std::byte{0xEE}),
                   std::vector(p.zero_points ? static_cast<std::size_t>(count) : 0U, 0x7EEE)};
  TERN_ASSIGN(x, upload(context, elements.data(), p.dtype, p.shape));
  TERN_ASSIGN(codes, upload(context, result.codes.data(), code_dtype(p.format), shape));
  TERN_ASSIGN(scales, upload(context, result.scales.data(), p.scale_dtype, {count}));
  TERN_ASSIGN(zero_points, upload(context, result.zero_points.data(), DType::i32, {p.zero_points ? count : 0}));
  TERN_RETURN_IF_ERROR(
      run_once(context, plan,
               {.x = x.view(), .codes = codes.view(), .scales = scales.view(), .zero_points = zero_points.view()}));
  TERN_RETURN_IF_ERROR(download(context, codes, result.codes.data()));
  TERN_RETURN_IF_ERROR(download(context, scales, result.scales.data()));
  TERN_RETURN_IF_ERROR(download(context, zero_points, result.zero_points.data()));
  return result;
}

}  // namespace

Result<Comparison> selftest_dynamic_quantize(const Context& context, const KernelDescription& kernel) {
  TERN_ASSIGN(format, parse_format(kernel.format));
  const Context cpu = reference_context();
  Comparison comparison;
  Random random(20240910);
  for (int repetition = 0; repetition < 60; ++repetition) {
    TERN_ASSIGN(dtype, random_dtype(random, kernel));
    QparamsInput in = random_qparams(random, dtype, format);
    DynamicQuantize::Problem p = dynamic_of(in.problem, static_cast<AffineMath>(random.below(3)));
    std::string what;
    for (const bool broken : {false, true}) {
      if (broken) {
        const std::int64_t at = break_element(random, dtype, in.x);
        what = unless_named(run(context, kernel.name, p, in.x), at);
        p.non_finite = NonFinite::saturate;
        if (dtype == DType::f64) p.scale_dtype = dtype;  // f32 does not hold the scale of the largest f64
      }
      TERN_ASSIGN(want, run(cpu, reference_of(kernel), p, in.x));
      TERN_ASSIGN(got, run(context, kernel.name, p, in.x));
      if (got != want) what = broken ? "codes or scales of saturated elements differ" : "codes or scales differ";
      if (!what.empty()) break;
    }
    ++comparison.problems;
    if (what.empty()) continue;
    comparison.difference = fmt::format("{}: {}", describe_choice(p), what);
    return comparison;
  }
  return comparison;
}

}  // namespace tern::lab
