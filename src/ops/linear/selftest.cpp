// Compares a linear kernel with the reference: bits where the contract decides them, on the inputs that overflow narrow
// sums; float modes within their bound.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/errors.h"
#include "format/format.h"
#include "lab/op_selftest.h"
#include "lab/weights.h"
#include "ops/linear/packed_weights.h"
#include "ops/ranges.h"
#include "plan/run_once.h"
#include "tern/linear.h"

namespace tern::lab {
namespace {

struct Input {
  Linear::Problem problem;
  std::vector<std::int8_t> bytes;
  std::vector<float> floats, x_scales, bias, w_scales;
  std::vector<std::uint8_t> codes;
};

Input random_input(Random& random, Format format, bool exact, std::int64_t most_tokens) {
  constexpr std::int64_t kSizes[] = {1, 2, 3, 7, 31, 33, 64, 65, 128, 200, 700, 2048, 2560, 4160};
  Input in;
  Linear::Problem& p = in.problem;
  p = {.m_max = 1 + random.below(random.below(8) == 0 ? most_tokens : 9),
       .k = kSizes[random.below(14)],
       .format = format};
  if (!exact && is_trits(format)) p.math = random.below(2) == 0 ? LinearMath::w2a8 : LinearMath::w2_float;
  p.x_dtype = p.math == LinearMath::w2_float || random.below(3) == 0 ? DType::f32 : DType::i8;
  const Granularity group = Granularity::group(1 + random.below(200));
  const Granularity whole = random.below(2) == 0 ? Granularity::tensor() : Granularity::row();
  Linear::Matrix m{.n = 1 + random.below(150), .granularity = exact ? whole : group};
  if (exact && random.below(3) == 0) m.y_dtype = DType::i32;
  m.bias = m.y_dtype != DType::i32 && random.below(2) == 0;
  p.matrices = {m};
  const std::int64_t kind = random.below(4);  // random, all 127, all -128, all large
  for (std::int64_t i = 0; i < p.m_max * p.k; ++i) {
    const std::int64_t v = kind == 1   ? 127
                           : kind == 2 ? -128
                           : kind == 3 ? 96 + random.below(32)
                                       : random.below(256) - 128;
    in.bytes.push_back(static_cast<std::int8_t>(v));
    in.floats.push_back(static_cast<float>(v) * 0.013F);
  }
  const auto odd = [&] { return 0.001F + std::fabs(random.gaussian()); };
  for (std::int64_t i = 0; i < p.m_max; ++i) in.x_scales.push_back(30 * odd());
  for (std::int64_t i = 0; i < m.n; ++i) in.bias.push_back(odd() - 1);
  for (std::int64_t i = 0; i < make_ranges(m.n, p.k, m.granularity).total; ++i) in.w_scales.push_back(odd());
  const std::int64_t bytes = row_bytes(format, p.k);
  in.codes.resize(static_cast<std::size_t>(m.n * bytes));
  std::vector<std::int8_t> row(static_cast<std::size_t>(p.k));
  const CodeRange range = is_trits(format) ? CodeRange{-1, 1} : code_range(format);
  const std::int64_t same = random.below(6);  // all the largest, all the smallest, random
  for (std::int64_t n = 0; n < m.n; ++n) {
    for (auto& weight : row)
      weight = static_cast<std::int8_t>(same == 0   ? range.max
                                        : same == 1 ? range.min
                                                    : range.min + random.below(range.max - range.min + 1));
    pack_row(format, row.data(), p.k, in.codes.data() + n * bytes);
  }
  return in;
}

// y's elements, each of four bytes.
Result<std::vector<std::uint32_t>> run(const Context& context, const std::string& kernel, const Input& in) {
  const Linear::Problem& p = in.problem;
  const Linear::Matrix& m = p.matrices[0];
  TERN_ASSIGN(weights,
              PackedWeights::pack(context, {in.codes.data(), code_dtype(p.format), {m.n, row_bytes(p.format, p.k)}},
                                  {in.w_scales.data(), DType::f32, {static_cast<std::int64_t>(in.w_scales.size())}},
                                  m.n, p.k, m.granularity, {}, p.format));
  Linear::Problem planned = p;
  planned.m_max = std::max<std::int64_t>(p.m_max, 64);  // kernels for many tokens refuse plans for few
  TERN_ASSIGN(plan, LinearPlan::select(context, planned, {.kernel = kernel, .strict = true}));
  const void* x = p.x_dtype == DType::i8 ? static_cast<const void*>(in.bytes.data()) : in.floats.data();
  std::vector<std::uint32_t> y(static_cast<std::size_t>(p.m_max * m.n), 0xEEEEEEEE);
  TERN_ASSIGN(x_there, upload(context, x, p.x_dtype, {p.m_max, p.k}));
  TERN_ASSIGN(x_scales, upload(context, in.x_scales.data(), DType::f32, {p.m_max}));
  TERN_ASSIGN(bias, upload(context, in.bias.data(), DType::f32, {m.n}));
  TERN_ASSIGN(y_there, upload(context, y.data(), m.y_dtype, {p.m_max, m.n}));
  Linear::Output output{.weights = weights, .y = y_there.view()};
  if (m.bias) output.bias = std::as_const(bias).view();
  TERN_RETURN_IF_ERROR(run_once(
      context, plan,
      {.x = std::as_const(x_there).view(), .x_scales = std::as_const(x_scales).view(), .outputs = {&output, 1}}));
  TERN_RETURN_IF_ERROR(download(context, y_there, y.data()));
  return y;
}

// The first element that differs, or nothing. In float modes both kernels lie within 1e-5 of the truth.
std::string difference(const Input& in, const std::vector<std::uint32_t>& got, const std::vector<std::uint32_t>& want,
                       bool exact) {
  const auto n = static_cast<std::size_t>(in.problem.matrices[0].n);
  const bool integers = in.problem.matrices[0].y_dtype == DType::i32;
  // No sum of |x||w| is larger than this one of the largest of each.
  float top = 0;
  for (const float v : in.floats) top = std::fmax(top, std::fabs(v));
  if (in.problem.x_dtype == DType::i8) top = 128 / *std::ranges::min_element(in.x_scales);
  const float scale = *std::ranges::max_element(in.w_scales);
  const float largest = is_trits(in.problem.format) ? 1.0F : -static_cast<float>(code_range(in.problem.format).min);
  const float bound = 3e-5F * (static_cast<float>(in.problem.k) * top * scale * largest + 4);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto a = __builtin_bit_cast(float, got[i]), b = __builtin_bit_cast(float, want[i]);
    if (got[i] == want[i] || (!exact && std::fabs(a - b) <= bound)) continue;
    if (integers)
      return fmt::format("y[{}, {}] is {}, the reference has {}", i / n, i % n, static_cast<std::int32_t>(got[i]),
                         static_cast<std::int32_t>(want[i]));
    return fmt::format("y[{}, {}] is {}, the reference has {}", i / n, i % n, a, b);
  }
  return {};
}

}  // namespace

Result<Comparison> selftest_linear(const Context& context, const KernelDescription& kernel) {
  TERN_ASSIGN(format, parse_format(kernel.format));
  const Context cpu = reference_context();
  // Beyond 64 tokens a GPU takes other kernels.
  const std::int64_t most_tokens = context.device().id.kind == DeviceKind::cuda ? 150 : 40;
  Comparison comparison;
  Random random(20240303);
  for (const bool exact : {true, false})
    for (int repetition = 0; repetition < (exact ? 150 : 50); ++repetition) {
      const Input in = random_input(random, format, exact, most_tokens);
      TERN_ASSIGN(want, run(cpu, reference_of(kernel), in));
      TERN_ASSIGN(got, run(context, kernel.name, in));
      ++comparison.problems;
      const std::string what = difference(in, got, want, exact);
      if (what.empty()) continue;
      const Linear::Problem& p = in.problem;
      comparison.difference = fmt::format("m {}, {} x {}, {} with {}, scales by {}: {}", p.m_max, p.matrices[0].n, p.k,
                                          name(p.math), name(p.x_dtype), name(p.matrices[0].granularity), what);
      return comparison;
    }
  return comparison;
}

}  // namespace tern::lab
