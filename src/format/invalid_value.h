// The details of errors about codes and scales: the invalid value and the valid range.
#pragma once

#include <limits>

#include "format/format.h"
#include "tern/status.h"

namespace tern {

// The details for the code that first_invalid_code() found. At k, that is the first padding code that is not 0.
inline InvalidValue invalid_code(Format format, Scheme scheme, const std::uint8_t* row, std::int64_t k,
                                 std::int64_t index) {
  const CodeRange range = index < k ? code_range(scheme) : CodeRange{};
  while (index >= k && read_code(format, row, index) == 0) ++index;
  return {.value = static_cast<double>(read_code(format, row, index)),
          .lowest = static_cast<double>(range.min),
          .highest = static_cast<double>(range.max)};
}

// The details for an f32 scale that valid_scale() refuses, and for one that is not finite where either sign is valid.
inline InvalidValue invalid_scale(double scale) {
  return {
      .value = scale, .lowest = std::numeric_limits<float>::denorm_min(), .highest = std::numeric_limits<float>::max()};
}
inline InvalidValue infinite_scale(double scale) {
  return {.value = scale, .lowest = std::numeric_limits<float>::lowest(), .highest = std::numeric_limits<float>::max()};
}

}  // namespace tern
