// Problems of ternary_dequantize: random codes and scales, and codes that are invalid.
#include "format/format.h"
#include "lab/op_selftest.h"
#include "lab/ternary_problems.h"

namespace tern::lab {
namespace {

constexpr int kRepetitions = 120;  // of every scheme

// Makes one code invalid, in b3 the codes of one byte, of which a kernel names the first. s2 has no invalid code.
std::optional<Spoiled> spoil(Random& random, Sample<TernaryDequantize>& sample) {
  const auto& p = sample.problem;
  if (p.format == Format::s2) return {};
  const std::int64_t row = random.below(p.rows);
  std::int64_t column = random.below(p.k);
  std::byte& byte = sample.inputs.at(
      "codes")[static_cast<std::size_t>(row * row_bytes(p.format, p.k) + column / codes_per_byte(p.format))];
  if (p.format == Format::i2) byte |= static_cast<std::byte>(3U << (2 * (column % 4)));
  if (p.format == Format::i8) byte = std::byte{2};
  if (p.format == Format::b3) {
    byte = std::byte{1};
    column -= column % 5;
  }
  return Spoiled{.code = Code::invalid_quantized_value, .index = row * p.k + column};
}

}  // namespace

template <>
std::optional<Sample<TernaryDequantize>> next_sample(Random& random, const KernelDescription& kernel, Format format,
                                                     int number) {
  std::vector<Scheme> schemes;
  for (const Scheme scheme : {Scheme::absmean, Scheme::int2})
    if (holds(format, scheme)) schemes.push_back(scheme);
  if (number >= kRepetitions * static_cast<int>(schemes.size())) return {};
  const Scheme scheme = schemes[static_cast<std::size_t>(number / kRepetitions)];
  auto p = random_ternary<TernaryDequantize>(random, random_dtype(random, kernel), scheme, format);
  if (random.below(60) == 0) p.k = 2'000'000 + random.below(1000);  // for threads, and stores that bypass the cache
  std::vector<float> scales(static_cast<std::size_t>(make_ranges(p.rows, p.k, p.granularity).total));
  std::vector<std::byte> codes = random_codes(random, format, p.rows, p.k, code_range(scheme));
  for (float& s : scales) s = std::ldexp(1.0F + std::fabs(random.gaussian()), static_cast<int>(random.below(80)) - 60);
  return Sample<TernaryDequantize>{
      .problem = p,
      .inputs = {{"codes", std::move(codes)}, {"scales", bytes_in(scales)}},
      .text = fmt::format("{} x {} {}, {}, {}", p.rows, p.k, name(p.dtype), name(p.scheme), name(p.granularity)),
      .spoil = spoil};
}

}  // namespace tern::lab
