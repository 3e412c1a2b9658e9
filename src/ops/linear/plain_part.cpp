// Tells selection what of a problem the kernels for tensor cores leave to the plain kernel, and why.
#include <array>

#include "base/errors.h"
#include "ops/linear/cuda_serves.h"

namespace tern::linear {
namespace {

using float_modes::Refusal;

struct Generation {
  int sm;
  std::string_view isa;
};
constexpr std::array kGenerations = {Generation{90, "cuda_sm90a"}, Generation{80, "cuda_sm80"},
                                     Generation{75, "cuda_sm75"}};
constexpr std::string_view kPlain = "cuda_simple";

std::string reason_of(const Linear::Problem& p, const float_modes::Served& served, const Linear::Matrix& matrix) {
  const std::int64_t group = group_of(matrix.granularity);
  switch (served.refusal) {
    case Refusal::none: return {};
    case Refusal::token_type: return fmt::format("has no tensor cores for {} tokens", name(p.x_dtype));
    case Refusal::columns:
    case Refusal::integers:
      if (p.k == 0) return "k is 0: there is nothing to multiply";
      if (exact(p.math, matrix.granularity))
        return fmt::format("k is {}, above its {} for {} weights", p.k, max_mma_k(p.format), name(p.format));
      return fmt::format("k is {}, above its {} for {}", p.k, MmaWeights<2>::kMaxK,
                         p.math == LinearMath::w2a8 ? "group scales" : "float tokens");
    case Refusal::group: return fmt::format("groups of {} are not a multiple of {}", group, float_modes::kStepColumns);
    case Refusal::bound: return fmt::format("rows of {} lose more than its f32 sums may (docs/numerics.md)", p.k);
    case Refusal::results:
      return fmt::format("m is {}: more results than it counts in 32 bits; give the tokens to several runs", p.m_max);
  }
  return {};
}

}  // namespace

void add_plain_parts(const Linear::Problem& p, ProblemFacts& facts) {
  // Integer kernels take some matrices; the rest goes to the float modes, all together or not at all.
  std::vector<std::size_t> rest;
  bool integers = false;
  for (std::size_t i = 0; i < p.matrices.size(); ++i) {
    if (p.matrices[i].n == 0) continue;
    if (for_integers(p.math, p.format, p.k, p.matrices[i].granularity))
      integers = true;
    else
      rest.push_back(i);
  }
  if (rest.empty()) return;
  const auto spec = [&](std::size_t i) -> const Linear::Matrix& { return p.matrices[rest[i]]; };
  const float_modes::Call call{.math = p.math, .x_dtype = p.x_dtype, .m = p.m_max, .k = p.k};
  for (const Generation& generation : kGenerations) {
    const float_modes::Served served = float_modes::served(generation.sm, call, rest.size(), spec);
    if (served.refusal == Refusal::none) continue;
    std::string reason = reason_of(p, served, spec(served.matrix));
    if (!integers) {
      facts.of_isas.push_back({.isa = generation.isa, .refused = std::move(reason)});
      continue;
    }
    std::string which;
    for (const std::size_t i : rest) which += fmt::format("{}matrices[{}]", which.empty() ? "" : ", ", i);
    facts.of_isas.push_back(
        {.isa = generation.isa,
         .note = fmt::format("linear.{}.{} multiplies {}: {}", name(p.format), kPlain, which, reason)});
  }
}

}  // namespace tern::linear
