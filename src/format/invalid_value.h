// What errors about codes and scales say in fields: the value, and what it may be.
#pragma once

#include <limits>

#include "format/format.h"
#include "tern/status.h"

namespace tern {

// The code that first_invalid_code() found. At k it is the first of the padding that is not code 0.
inline InvalidValue invalid_code(Format format, Scheme scheme, const std::uint8_t* row, std::int64_t k,
                                 std::int64_t index) {
  const CodeRange range = index < k ? code_range(scheme) : CodeRange{};
  while (index >= k && read_code(format, row, index) == 0) ++index;
  return {.value = static_cast<double>(read_code(format, row, index)),
          .lowest = static_cast<double>(range.min),
          .highest = static_cast<double>(range.max)};
}

// An f32 scale that valid_scale() refuses, and one that is not finite where any sign will do.
inline InvalidValue invalid_scale(double scale) {
  return {
      .value = scale, .lowest = std::numeric_limits<float>::denorm_min(), .highest = std::numeric_limits<float>::max()};
}
inline InvalidValue infinite_scale(double scale) {
  return {.value = scale, .lowest = std::numeric_limits<float>::lowest(), .highest = std::numeric_limits<float>::max()};
}

}  // namespace tern
