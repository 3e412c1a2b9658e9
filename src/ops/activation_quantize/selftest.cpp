// Problems of activation_quantize: tokens of every type and pattern.
#include "base/elements.h"
#include "lab/op_selftest.h"

namespace tern::lab {

template <>
std::optional<Sample<ActivationQuantize>> next_sample(Random& random, const KernelDescription&, Format, int number) {
  constexpr std::int64_t kSizes[] = {1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1000, 2560};
  constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};
  constexpr int kRepetitions = 10, kOfAType = static_cast<int>(kPatterns.size()) * kRepetitions;
  if (number >= 3 * kOfAType) return {};
  const Pattern pattern = kPatterns[static_cast<std::size_t>(number % kOfAType / kRepetitions)];
  const ActivationQuantize::Problem p{
      .m = 1 + random.below(5), .k = kSizes[random.below(14)], .dtype = kTypes[number / kOfAType]};
  std::vector<float> values(static_cast<std::size_t>(p.m * p.k));
  fill_weights(pattern, random, values.data(), p.m * p.k);
  std::vector<std::byte> x(values.size() * size_of(p.dtype));
  for (std::int64_t i = 0; i < p.m * p.k; ++i) {
    write_element(x.data(), p.dtype, i, static_cast<double>(values[static_cast<std::size_t>(i)]));
    write_element(x.data(), p.dtype, i, saturated(read_element(x.data(), p.dtype, i), p.dtype));  // 3e38 overflows f16
  }
  return Sample<ActivationQuantize>{
      .problem = p,
      .inputs = {{"x", std::move(x)}},
      .text = fmt::format("{} tokens of {} {}, {}", p.m, p.k, name(p.dtype), name(pattern)),
      .spoil = spoil_x};
}

}  // namespace tern::lab
