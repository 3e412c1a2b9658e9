// Problems of ternary_quantize: every scheme and pattern of weights, odd sizes and groups, awkward values.
#include "base/elements.h"
#include "lab/op_selftest.h"
#include "lab/ternary_problems.h"

namespace tern::lab {
namespace {

constexpr int kRepetitions = 8;  // of every scheme and pattern

TernaryQuantize::Problem random_problem(Random& random, DType dtype, Scheme scheme, Format format) {
  TernaryQuantize::Problem p = random_ternary<TernaryQuantize>(random, dtype, scheme, format);
  if (random.below(50) == 0) {  // enough for several threads
    p.rows = 1;
    p.k = 200'000 + random.below(1000);
  }
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

std::optional<Spoiled> spoil(Random& random, Sample<TernaryQuantize>& sample) {
  auto spoiled = spoil_x(random, sample);
  if (spoiled) spoiled->saturates = false;  // random_weights() has such samples
  return spoiled;
}

}  // namespace

template <>
std::optional<Sample<TernaryQuantize>> next_sample(Random& random, const KernelDescription& kernel, Format format,
                                                   int number) {
  constexpr int kOfAScheme = static_cast<int>(kPatterns.size()) * kRepetitions;
  std::vector<Scheme> schemes;
  for (const std::string& scheme : kernel.schemes) schemes.push_back(*parse_scheme(scheme));
  if (number >= kOfAScheme * static_cast<int>(schemes.size())) return {};
  const Scheme scheme = schemes[static_cast<std::size_t>(number / kOfAScheme)];
  const Pattern pattern = kPatterns[static_cast<std::size_t>(number % kOfAScheme / kRepetitions)];
  const auto p = random_problem(random, random_dtype(random, kernel), scheme, format);
  return Sample<TernaryQuantize>{
      .problem = p,
      .inputs = {{"x", random_weights(random, pattern, p)}, {"given_scale", bytes_in(std::vector{0.37F})}},
      .text = fmt::format("{} x {} {}, {}, {}, {} weights", p.rows, p.k, name(p.dtype), name(p.scheme),
                          name(p.granularity), name(pattern)),
      .spoil = spoil};
}

}  // namespace tern::lab
