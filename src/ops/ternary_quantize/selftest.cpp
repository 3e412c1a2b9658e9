// Compares a ternary_quantize kernel with the reference on random shapes and awkward values.
#include <algorithm>
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

struct Output {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
};

Result<Output> run(const Context& context, const std::string& kernel, const TernaryQuantize::Problem& p,
                   const std::vector<std::byte>& x) {
  TERN_ASSIGN(plan, TernaryQuantizePlan::select(context, p, {.kernel = kernel, .strict = true}));
  const std::int64_t bytes = row_bytes(p.format, p.k), ranges = make_ranges(p.rows, p.k, p.granularity).total;
  Output out{std::vector<std::uint8_t>(static_cast<std::size_t>(p.rows * bytes), 0xEE),
             std::vector<float>(static_cast<std::size_t>(ranges), -1.0F)};
  const float given = 0.37F;
  TERN_ASSIGN(x_there, upload(context, x.data(), p.dtype, {p.rows, p.k}));
  TERN_ASSIGN(codes, upload(context, out.codes.data(), code_dtype(p.format), {p.rows, bytes}));
  TERN_ASSIGN(scales, upload(context, out.scales.data(), DType::f32, {ranges}));
  TERN_ASSIGN(given_there, upload(context, &given, DType::f32, {1}));
  TERN_RETURN_IF_ERROR(run_once(
      context, plan,
      {.x = x_there.view(), .codes = codes.view(), .scales = scales.view(), .given_scale = given_there.view()}));
  TERN_RETURN_IF_ERROR(download(context, codes, out.codes.data()));
  TERN_RETURN_IF_ERROR(download(context, scales, out.scales.data()));
  return out;
}

// Describes the first difference; empty if there is none.
std::string difference(const TernaryQuantize::Problem& p, const Output& got, const Output& want) {
  for (std::size_t i = 0; i < want.scales.size(); ++i)
    if (std::memcmp(&got.scales[i], &want.scales[i], sizeof(float)) != 0)
      return fmt::format("scale {} is {}, the reference has {}", i, got.scales[i], want.scales[i]);
  const std::int64_t bytes = row_bytes(p.format, p.k);
  for (std::size_t i = 0; i < want.codes.size(); ++i)
    if (got.codes[i] != want.codes[i])
      return fmt::format("byte {} of row {} (element {}) is {:#04x}, the reference has {:#04x}",
                         static_cast<std::int64_t>(i) % bytes, static_cast<std::int64_t>(i) / bytes,
                         static_cast<std::int64_t>(i) % bytes * codes_per_byte(p.format), got.codes[i], want.codes[i]);
  return {};
}

TernaryQuantize::Problem random_problem(Random& random, DType dtype, Scheme scheme, Format format) {
  constexpr std::int64_t kSizes[] = {1, 2, 3, 5, 31, 32, 33, 127, 128, 129, 1000, 1023, 1024, 1025, 4096, 5000};
  constexpr std::int64_t kGroups[] = {1, 3, 7, 32, 100, 128, 1000, 4096};
  TernaryQuantize::Problem p{
      .rows = 1 + random.below(6), .k = kSizes[random.below(16)], .dtype = dtype, .scheme = scheme};
  if (random.below(50) == 0) {  // enough for several threads
    p.rows = 1;
    p.k = 200'000 + random.below(1000);
  }
  const std::int64_t kind = random.below(4);
  p.granularity = kind == 0   ? Granularity::tensor()
                  : kind == 1 ? Granularity::row()
                              : Granularity::group(kGroups[random.below(8)]);
  p.format = format;
  p.non_finite = random.below(4) == 0 ? NonFinite::saturate : NonFinite::reject;
  p.scale_given = scheme == Scheme::int2 && random.below(3) == 0;
  return p;
}

// Weights in the problem's type, some of them not finite if the problem saturates.
std::vector<std::byte> random_weights(Random& random, Pattern pattern, const TernaryQuantize::Problem& p) {
  const std::int64_t n = p.rows * p.k;
  std::vector<float> values(static_cast<std::size_t>(n));
  fill_weights(pattern, random, values.data(), n);
  std::vector<std::byte> x(values.size() * size_of(p.dtype));
  for (std::int64_t i = 0; i < n; ++i) {
    write_element(x.data(), p.dtype, i, values[static_cast<std::size_t>(i)]);
    write_element(x.data(), p.dtype, i, saturated(read_element(x.data(), p.dtype, i), p.dtype));  // 3e38 overflows f16
  }
  if (p.non_finite == NonFinite::saturate) {
    write_element(x.data(), p.dtype, random.below(n), std::nan(""));
    // An infinite f64 saturates to the largest f64, whose scale overflows f32.
    if (p.dtype != DType::f64) write_element(x.data(), p.dtype, random.below(n), -HUGE_VAL);
  }
  return x;
}

}  // namespace

Result<Comparison> selftest_ternary_quantize(const Context& context, const KernelDescription& kernel) {
  TERN_ASSIGN(format, parse_format(kernel.format));
  const Context cpu = reference_context();
  Comparison comparison;
  Random random(20240229);
  for (const Scheme scheme : {Scheme::absmean, Scheme::absmax, Scheme::mse, Scheme::int2}) {
    if (!holds(format, scheme) || std::ranges::find(kernel.schemes, name(scheme)) == kernel.schemes.end()) continue;
    for (const Pattern pattern : kPatterns)
      for (int repetition = 0; repetition < 8; ++repetition) {
        TERN_ASSIGN(dtype, random_dtype(random, kernel));
        const auto p = random_problem(random, dtype, scheme, format);
        const auto x = random_weights(random, pattern, p);
        TERN_ASSIGN(want, run(cpu, reference_of(kernel), p, x));
        TERN_ASSIGN(got, run(context, kernel.name, p, x));
        ++comparison.problems;
        const std::string what = difference(p, got, want);
        if (what.empty()) continue;
        comparison.difference = fmt::format("{} x {} {}, {}, {}, {} weights: {}", p.rows, p.k, name(p.dtype),
                                            name(p.scheme), name(p.granularity), name(pattern), what);
        return comparison;
      }
  }
  return comparison;
}

}  // namespace tern::lab
