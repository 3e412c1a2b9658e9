// Random problems of the ternary ops, and rows of random codes in any format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "format/format.h"
#include "lab/weights.h"
#include "tern/quantize.h"

namespace tern::lab {

// Odd sizes, every granularity, ragged groups.
template <class Op>
typename Op::Problem random_ternary(Random& random, DType dtype, Scheme scheme, Format format) {
  constexpr std::int64_t kSizes[] = {1, 2, 3, 5, 31, 32, 33, 127, 128, 129, 1000, 1023, 1024, 1025, 4096, 5000};
  constexpr std::int64_t kGroups[] = {1, 3, 7, 32, 100, 128, 1000, 4096};
  typename Op::Problem p;
  p.rows = 1 + random.below(6);
  p.k = kSizes[random.below(16)];
  p.dtype = dtype;
  p.scheme = scheme;
  p.format = format;
  const std::int64_t kind = random.below(4);
  p.granularity = kind == 0   ? Granularity::tensor()
                  : kind == 1 ? Granularity::row()
                              : Granularity::group(kGroups[random.below(8)]);
  return p;
}

// Canonical rows of codes in a range.
inline std::vector<std::byte> random_codes(Random& random, Format format, std::int64_t rows, std::int64_t k,
                                           CodeRange range) {
  const std::int64_t bytes = row_bytes(format, k);
  std::vector<std::byte> codes(static_cast<std::size_t>(rows * bytes));
  std::vector<std::int8_t> row(static_cast<std::size_t>(k));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int8_t& code : row) code = static_cast<std::int8_t>(range.min + random.below(range.max - range.min + 1));
    pack_row(format, row.data(), k, reinterpret_cast<std::uint8_t*>(codes.data()) + r * bytes);
  }
  return codes;
}
// The range of weights that a product takes in a format.
inline CodeRange weight_range(Format format) { return is_trits(format) ? CodeRange{-1, 1} : code_range(format); }

}  // namespace tern::lab
