// Compares a linear kernel with the reference: bits where the contract decides them, on the inputs that overflow narrow
// sums; float modes within their bound.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/errors.h"
#include "format/format.h"
#include "lab/op_selftest.h"
#include "lab/weights.h"
#include "ops/ranges.h"
#include "plan/run_once.h"
#include "tern/linear.h"

namespace tern::lab {
namespace {

struct Input {
  Linear::Problem problem;
  std::vector<std::int8_t> bytes;
  std::vector<float> floats, x_scales, bias, w_scales;
  PackedWeights weights;
};

Result<Input> random_input(const Context& context, Random& random, Format format, bool exact) {
  constexpr std::int64_t kSizes[] = {1, 2, 3, 7, 31, 33, 64, 65, 128, 200, 700, 2048, 2560, 4160};
  Input in;
  Linear::Problem& p = in.problem;
  p = {.m_max = 1 + random.below(random.below(8) == 0 ? 40 : 9), .k = kSizes[random.below(14)], .format = format};
  if (!exact) p.math = random.below(2) == 0 ? LinearMath::w2a8 : LinearMath::w2_float;
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
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(m.n * bytes));
  std::vector<std::int8_t> row(static_cast<std::size_t>(p.k));
  const bool ones = random.below(3) == 0;
  for (std::int64_t n = 0; n < m.n; ++n) {
    for (auto& trit : row) trit = ones ? std::int8_t{1} : static_cast<std::int8_t>(random.below(3) - 1);
    pack_row(format, row.data(), p.k, codes.data() + n * bytes);
  }
  TERN_ASSIGN(weights,
              PackedWeights::pack(context, {codes.data(), DType::u8, {m.n, bytes}},
                                  {in.w_scales.data(), DType::f32, {static_cast<std::int64_t>(in.w_scales.size())}},
                                  m.n, p.k, m.granularity, {}, format));
  in.weights = weights;
  return in;
}

Result<Tensor> run(const Context& context, const std::string& kernel, const Input& in) {
  const Linear::Problem& p = in.problem;
  const Linear::Matrix& m = p.matrices[0];
  Linear::Problem planned = p;
  planned.m_max = std::max<std::int64_t>(p.m_max, 64);  // kernels for many tokens refuse plans for few
  TERN_ASSIGN(plan, LinearPlan::select(context, planned, {.kernel = kernel, .strict = true}));
  TERN_ASSIGN(y, Tensor::allocate(context.memory(), m.y_dtype, {p.m_max, m.n}, "selftest"));
  std::memset(y.data(), 0xEE, y.bytes());
  Linear::Output output{.weights = in.weights, .y = y.view()};
  if (m.bias) output.bias = {in.bias.data(), DType::f32, {m.n}};
  const void* x = p.x_dtype == DType::i8 ? static_cast<const void*>(in.bytes.data()) : in.floats.data();
  TERN_RETURN_IF_ERROR(run_once(context, plan,
                                {.x = {x, p.x_dtype, {p.m_max, p.k}},
                                 .x_scales = {in.x_scales.data(), DType::f32, {p.m_max}},
                                 .outputs = {&output, 1}}));
  return y;
}

// The first element that differs, or nothing. In float modes both kernels lie within 1e-5 of the truth.
std::string difference(const Input& in, const Tensor& got, const Tensor& want, bool exact) {
  const auto n = static_cast<std::size_t>(in.problem.matrices[0].n);
  const bool integers = in.problem.matrices[0].y_dtype == DType::i32;
  // No sum of |x||w| is larger than this one of the largest of each.
  float top = 0;
  for (const float v : in.floats) top = std::fmax(top, std::fabs(v));
  if (in.problem.x_dtype == DType::i8) top = 128 / *std::ranges::min_element(in.x_scales);
  const float scale = *std::ranges::max_element(in.w_scales);
  const float bound = 3e-5F * (static_cast<float>(in.problem.k) * top * scale + 4);
  for (std::size_t i = 0; i < static_cast<std::size_t>(got.elements()); ++i) {
    const float a = got.as<const float>()[i], b = want.as<const float>()[i];
    const bool same = std::memcmp(&a, &b, sizeof a) == 0;
    if (same || (!exact && std::fabs(a - b) <= bound)) continue;
    if (integers)
      return fmt::format("y[{}, {}] is {}, the reference has {}", i / n, i % n, got.as<const std::int32_t>()[i],
                         want.as<const std::int32_t>()[i]);
    return fmt::format("y[{}, {}] is {}, the reference has {}", i / n, i % n, a, b);
  }
  return {};
}

}  // namespace

Result<Comparison> selftest_linear(const Context& context, const KernelDescription& kernel) {
  TERN_ASSIGN(format, parse_format(kernel.format));
  Comparison comparison;
  Random random(20240303);
  for (const bool exact : {true, false})
    for (int repetition = 0; repetition < (exact ? 150 : 50); ++repetition) {
      TERN_ASSIGN(in, random_input(context, random, format, exact));
      TERN_ASSIGN(want, run(context, reference_of(kernel), in));
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
