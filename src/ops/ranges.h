// Which elements share a scale, and how many such ranges a [rows, k] tensor has.
#pragma once

#include <cstdint>

#include "base/checked.h"
#include "tern/status.h"
#include "tern/types.h"

namespace tern {

// Ranges of a row are `len` long, the last one may be short. A tensor-wide range is the one range of all rows.
struct Ranges {
  std::int64_t len = 0;      // rows*k for a tensor-wide range
  std::int64_t per_row = 0;  // 0 for a tensor-wide range
  std::int64_t total = 0;    // scales; 0 when there are no elements
};

// Sizes must not be negative, their product must not overflow and the granularity must be valid: check_extent() first.
inline Ranges make_ranges(std::int64_t rows, std::int64_t k, const Granularity& granularity) {
  if (rows == 0 || k == 0) return {};
  switch (granularity.kind) {
    case Granularity::Kind::tensor: return {rows * k, 0, 1};
    case Granularity::Kind::row: return {k, 1, rows};
    case Granularity::Kind::group: break;
  }
  const std::int64_t len = granularity.group_size < k ? granularity.group_size : k;
  const std::int64_t per_row = ceil_div(k, len);
  return {len, per_row, rows * per_row};
}

// Sizes and granularity of a problem: not negative, no overflow in elements or bytes, a group of at least 1.
Status check_extent(std::string_view op, std::int64_t rows, std::int64_t k, DType dtype,
                    const Granularity& granularity);

}  // namespace tern
