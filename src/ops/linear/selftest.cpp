// Compares a linear kernel, or the reference, with a truth computed from canonical codes: to the bit where the contract
// decides the bits, also on inputs that overflow narrow sums; float modes within their bound.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/errors.h"
#include "format/format.h"
#include "format/ranges.h"
#include "lab/linear_truth.h"
#include "lab/op_selftest.h"
#include "lab/ternary_problems.h"
#include "ops/dot/packed_weights.h"
#include "plan/run_once.h"
#include "tern/linear.h"

namespace tern::lab {
namespace {

struct Input {
  Linear::Problem problem;
  std::vector<std::int8_t> bytes;
  std::vector<float> floats, x_scales, bias, w_scales;
  std::vector<std::byte> codes;
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
  CodeRange range = weight_range(format);
  const std::int64_t same = random.below(6);  // all the largest, all the smallest, random
  if (same == 0) range.min = range.max;
  if (same == 1) range.max = range.min;
  in.codes = random_codes(random, format, m.n, p.k, range);
  return in;
}

// Kernels for many tokens refuse plans for few.
Linear::Problem planned(Linear::Problem p) {
  p.m_max = std::max<std::int64_t>(p.m_max, 64);
  return p;
}

// Returns y's elements, of four bytes each.
Result<std::vector<std::uint32_t>> run(const Context& context, const std::string& kernel, const Input& in) {
  const Linear::Problem& p = in.problem;
  const Linear::Matrix& m = p.matrices[0];
  TERN_ASSIGN(weights,
              PackedWeights::pack(context, {in.codes.data(), code_dtype(p.format), {m.n, row_bytes(p.format, p.k)}},
                                  {in.w_scales.data(), DType::f32, {static_cast<std::int64_t>(in.w_scales.size())}},
                                  m.n, p.k, m.granularity, {}, p.format));
  TERN_ASSIGN(plan, LinearPlan::select(context, planned(p), {.kernel = kernel, .strict = true}));
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

// Describes the first wrong element; empty if there is none.
std::string difference(const Input& in, const std::vector<std::uint32_t>& got, bool exact) {
  const Linear::Problem& p = in.problem;
  const auto n = static_cast<std::size_t>(p.matrices[0].n);
  const LinearTruth truth(p, p.m_max, in.bytes.data(), in.floats.data(), in.x_scales.data());
  const TruthMatrix matrix{.spec = p.matrices[0],
                           .codes = reinterpret_cast<const std::uint8_t*>(in.codes.data()),
                           .scales = in.w_scales.data(),
                           .bias = in.bias.data()};
  if (!exact) {
    const LinearTruth::Near near = truth.near(matrix);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto y = static_cast<double>(__builtin_bit_cast(float, got[i]));
      const double half_ulp = near.y[i] == 0 ? 0x1p-150 : std::ldexp(1.0, std::max(std::ilogb(near.y[i]), -126) - 24);
      if (std::fabs(y - near.y[i]) <= 1e-5 * near.size[i] + half_ulp) continue;
      return fmt::format("y[{}, {}] is {}, the truth is {}", i / n, i % n, y, near.y[i]);
    }
    return {};
  }
  const std::vector<std::byte> want = truth.bits(matrix);
  for (std::size_t i = 0; i < got.size(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, want.data() + 4 * i, sizeof bits);
    if (got[i] == bits) continue;
    if (p.matrices[0].y_dtype == DType::i32)
      return fmt::format("y[{}, {}] is {}, the truth is {}", i / n, i % n, static_cast<std::int32_t>(got[i]),
                         static_cast<std::int32_t>(bits));
    return fmt::format("y[{}, {}] is {}, the truth is {}", i / n, i % n, __builtin_bit_cast(float, got[i]),
                       __builtin_bit_cast(float, bits));
  }
  return {};
}

}  // namespace

template <>
Result<Comparison> own_selftest<Linear>(const Context& context, const KernelDescription& kernel) {
  TERN_ASSIGN(format, parse_format(kernel.format));
  // Beyond 64 tokens a GPU uses other kernels.
  const bool on_gpu = context.device().id.kind == DeviceKind::cuda;
  const std::int64_t most_tokens = on_gpu ? 150 : 40;
  Comparison comparison;
  Random random(20240303);
  for (const bool exact : {true, false})
    for (int repetition = 0; repetition < (exact ? 150 : 50); ++repetition) {
      const Input in = random_input(random, format, exact, most_tokens);
      TERN_ASSIGN(taken, takes<Linear>(context, kernel.name, planned(in.problem), comparison));
      if (!taken) continue;
      TERN_ASSIGN(got, run(context, kernel.name, in));
      ++comparison.problems;
      const bool to_the_bit =
          exact || (in.problem.math == LinearMath::w2a8 && !on_gpu);  // GPUs add up groups in another order
      const std::string what = difference(in, got, to_the_bit);
      if (what.empty()) continue;
      const Linear::Problem& p = in.problem;
      comparison.difference = fmt::format("m {}, {} x {}, {} with {}, scales by {}: {}", p.m_max, p.matrices[0].n, p.k,
                                          name(p.math), name(p.x_dtype), name(p.matrices[0].granularity), what);
      return comparison;
    }
  return comparison;
}

}  // namespace tern::lab
