// Compares an affine_dequantize kernel with the reference on random codes, scales and zero points.
#include "base/errors.h"
#include "lab/affine_problems.h"
#include "lab/op_selftest.h"
#include "plan/run_once.h"

namespace tern::lab {
namespace {

Result<std::vector<std::byte>> run(const Context& context, const std::string& kernel, const AffineCodes& in) {
  const auto& p = in.problem;
  TERN_ASSIGN(plan, AffineDequantizePlan::select(context, p, {.kernel = kernel, .strict = true}));
  TERN_ASSIGN(count, affine_scale_count(p.shape, p.granularity));
  TERN_ASSIGN(elements, element_count(p.shape));
  Shape shape = p.shape;
  shape[shape.rank() - 1] = row_bytes(p.format, shape[shape.rank() - 1]);
  std::vector<std::byte> result(static_cast<std::size_t>(elements) * size_of(p.dtype), std::byte{0xEE});
  TERN_ASSIGN(codes, upload(context, in.codes.data(), code_dtype(p.format), shape));
  TERN_ASSIGN(scales, upload(context, in.scales.data(), p.scale_dtype, {count}));
  TERN_ASSIGN(zero_points, upload(context, in.zero_points.data(), DType::i32, {p.zero_points ? count : 0}));
  TERN_ASSIGN(y, upload(context, result.data(), p.dtype, p.shape));
  TERN_RETURN_IF_ERROR(
      run_once(context, plan,
               {.codes = codes.view(), .scales = scales.view(), .zero_points = zero_points.view(), .y = y.view()}));
  TERN_RETURN_IF_ERROR(download(context, y, result.data()));
  return result;
}

}  // namespace

Result<Comparison> selftest_affine_dequantize(const Context& context, const KernelDescription& kernel) {
  TERN_ASSIGN(format, parse_format(kernel.format));
  const Context cpu = reference_context();
  Comparison comparison;
  Random random(20240309);
  for (int repetition = 0; repetition < 120; ++repetition) {
    TERN_ASSIGN(dtype, random_dtype(random, kernel));
    const AffineCodes in = random_codes(random, dtype, format);
    TERN_ASSIGN(want, run(cpu, reference_of(kernel), in));
    TERN_ASSIGN(got, run(context, kernel.name, in));
    ++comparison.problems;
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (got[i] == want[i]) continue;
      const auto at = static_cast<std::int64_t>(i / size_of(dtype));
      comparison.difference = fmt::format("{}: element {} is {}, the reference has {}", describe(in.problem), at,
                                          read_element(got.data(), dtype, at), read_element(want.data(), dtype, at));
      return comparison;
    }
  }
  return comparison;
}

}  // namespace tern::lab
