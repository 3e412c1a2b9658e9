// Reading, writing and checking rows of codes, one code at a time: the slow truth that kernels are compared with.
#include "format/format.h"

#include "format/i2.h"
#include "format/s2.h"

namespace tern {

int read_code(Format format, const std::uint8_t* row, std::int64_t index) {
  switch (format) {
    case Format::i2: return i2::read(row[index / 4], static_cast<int>(index % 4));
    case Format::s2: return s2::read(row[index / 4], static_cast<int>(index % 4));
    case Format::i8: return static_cast<std::int8_t>(row[index]);
  }
  return 0;
}

void pack_row(Format format, const std::int8_t* codes, std::int64_t k, std::uint8_t* row) {
  if (format == Format::i8) {
    for (std::int64_t i = 0; i < k; ++i) row[i] = static_cast<std::uint8_t>(codes[i]);
    return;
  }
  for (std::int64_t i = 0; i < k; i += 4) {
    std::array<int, 4> quad{};  // code 0 is the padding of both formats
    for (std::int64_t j = i; j < i + 4 && j < k; ++j) quad[static_cast<std::size_t>(j - i)] = codes[j];
    row[i / 4] = format == Format::i2 ? i2::pack(quad) : s2::pack(quad);
  }
}

std::int64_t first_invalid_code(Format format, Scheme scheme, const std::uint8_t* row, std::int64_t k) {
  const CodeRange range = code_range(scheme);
  const bool every_code_is_valid = format == Format::s2 && scheme == Scheme::int2;
  for (std::int64_t i = 0; i < k && !every_code_is_valid; ++i) {
    if (format == Format::i2 && i % 4 == 0 && i + 4 <= k && !i2::has_code3(row[i / 4])) {
      i += 3;  // four valid trits at once
      continue;
    }
    const int code = read_code(format, row, i);
    if (code < range.min || code > range.max) return i;
  }
  if (format != Format::i8)
    for (std::int64_t i = k; i < 4 * row_bytes(format, k); ++i)
      if (read_code(format, row, i) != 0) return k;
  return -1;
}

}  // namespace tern
