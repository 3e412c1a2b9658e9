// Compares a ternary_dequantize kernel with the reference on random codes and scales, and on codes that are invalid.
#include <cstring>

#include "base/elements.h"
#include "base/errors.h"
#include "format/format.h"
#include "format/ranges.h"
#include "lab/op_selftest.h"
#include "lab/weights.h"
#include "plan/run_once.h"
#include "tern/quantize.h"

namespace tern::lab {
namespace {

struct Input {
  TernaryDequantize::Problem problem;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
};

Input random_input(Random& random, DType dtype, Scheme scheme, Format format) {
  constexpr std::int64_t kSizes[] = {1, 2, 3, 5, 31, 32, 33, 127, 128, 129, 1000, 1023, 1024, 1025, 4096, 5000};
  constexpr std::int64_t kGroups[] = {1, 3, 7, 32, 100, 128, 1000, 4096};
  Input in;
  auto& p = in.problem;
  p = {.rows = 1 + random.below(6), .k = kSizes[random.below(16)], .dtype = dtype, .scheme = scheme};
  if (random.below(60) == 0) p.k = 2'000'000 + random.below(1000);  // for threads, and stores that bypass the cache
  const std::int64_t kind = random.below(4);
  p.granularity = kind == 0   ? Granularity::tensor()
                  : kind == 1 ? Granularity::row()
                              : Granularity::group(kGroups[random.below(8)]);
  p.format = format;
  const CodeRange range = code_range(scheme);
  const std::int64_t bytes = row_bytes(format, p.k);
  in.codes.resize(static_cast<std::size_t>(p.rows * bytes));
  std::vector<std::int8_t> row(static_cast<std::size_t>(p.k));
  for (std::int64_t r = 0; r < p.rows; ++r) {
    for (auto& code : row) code = static_cast<std::int8_t>(range.min + random.below(range.max - range.min + 1));
    pack_row(format, row.data(), p.k, in.codes.data() + r * bytes);
  }
  in.scales.resize(static_cast<std::size_t>(make_ranges(p.rows, p.k, p.granularity).total));
  for (float& s : in.scales)
    s = std::ldexp(1.0F + std::fabs(random.gaussian()), static_cast<int>(random.below(80)) - 60);
  return in;
}

Result<Tensor> run(const Context& context, const std::string& kernel, const Input& in) {
  const auto& p = in.problem;
  TERN_ASSIGN(plan, TernaryDequantizePlan::select(context, p, {.kernel = kernel, .strict = true}));
  TERN_ASSIGN(result, Tensor::allocate(host_memory(), p.dtype, {p.rows, p.k}, "selftest"));
  std::memset(result.data(), 0xEE, result.bytes());
  TERN_ASSIGN(y, upload(context, result.data(), p.dtype, result.shape()));
  TERN_ASSIGN(codes, upload(context, in.codes.data(), code_dtype(p.format), {p.rows, row_bytes(p.format, p.k)}));
  TERN_ASSIGN(scales, upload(context, in.scales.data(), DType::f32, {static_cast<std::int64_t>(in.scales.size())}));
  TERN_RETURN_IF_ERROR(run_once(context, plan, {.codes = codes.view(), .scales = scales.view(), .y = y.view()}));
  TERN_RETURN_IF_ERROR(download(context, y, result.data()));
  return result;
}

std::string difference(const Tensor& got, const Tensor& want) {
  const DType dtype = want.dtype();
  for (std::int64_t i = 0; i < want.elements(); ++i)
    if (std::memcmp(element(got.data(), dtype, i), element(want.data(), dtype, i), size_of(dtype)) != 0)
      return fmt::format("element {} is {}, the reference has {}", i, read_element(got.data(), dtype, i),
                         read_element(want.data(), dtype, i));
  return {};
}

// Makes one code invalid, in b3 the codes of one byte. The kernel must name that element, in b3 the first of the byte.
// s2 has no invalid code.
Result<std::string> broken_code(const Context& context, const std::string& kernel, Input in, Random& random) {
  const auto& p = in.problem;
  if (p.format == Format::s2) return std::string();
  const std::int64_t row = random.below(p.rows);
  std::int64_t column = random.below(p.k);
  std::uint8_t& byte =
      in.codes[static_cast<std::size_t>(row * row_bytes(p.format, p.k) + column / codes_per_byte(p.format))];
  if (p.format == Format::i2) byte |= static_cast<std::uint8_t>(3U << (2 * (column % 4)));
  if (p.format == Format::i8) byte = 2;
  if (p.format == Format::b3) {
    byte = 1;
    column -= column % 5;
  }
  auto y = run(context, kernel, in);
  if (y.ok()) return fmt::format("an invalid code at [{}, {}] was accepted", row, column);
  if (y.code() != Code::invalid_quantized_value || y.error().index != row * p.k + column)
    return fmt::format("an invalid code at [{}, {}] gave: {}", row, column, y.error().str());
  return std::string();
}

}  // namespace

Result<Comparison> selftest_ternary_dequantize(const Context& context, const KernelDescription& kernel) {
  TERN_ASSIGN(format, parse_format(kernel.format));
  const Context cpu = reference_context();
  Comparison comparison;
  Random random(20240301);
  for (const Scheme scheme : {Scheme::absmean, Scheme::int2}) {
    if (!holds(format, scheme)) continue;
    for (int repetition = 0; repetition < 120; ++repetition) {
      TERN_ASSIGN(dtype, random_dtype(random, kernel));
      const Input in = random_input(random, dtype, scheme, format);
      TERN_ASSIGN(want, run(cpu, reference_of(kernel), in));
      TERN_ASSIGN(got, run(context, kernel.name, in));
      std::string what = difference(got, want);
      if (what.empty()) {
        TERN_ASSIGN(refusal, broken_code(context, kernel.name, in, random));
        what = refusal;
      }
      ++comparison.problems;
      if (what.empty()) continue;
      comparison.difference =
          fmt::format("{} x {} {}, {}, {}: {}", in.problem.rows, in.problem.k, name(in.problem.dtype),
                      name(in.problem.scheme), name(in.problem.granularity), what);
      return comparison;
    }
  }
  return comparison;
}

}  // namespace tern::lab
