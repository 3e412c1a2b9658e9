// Which elements share a scale, and how many such ranges a [rows, k] tensor has.
#pragma once

#include <cstdint>

#include "base/checked.h"
#include "base/views.h"
#include "tern/status.h"
#include "tern/types.h"

namespace tern {

// A row is split into ranges of `len` elements; its last range may be shorter. A tensor-wide range covers all rows.
struct Ranges {
  std::int64_t len = 0;      // rows*k for a tensor-wide range
  std::int64_t per_row = 0;  // 0 for a tensor-wide range
  std::int64_t total = 0;    // number of ranges and scales; 0 if there are no elements
};

// Call check_extent() first: sizes must not be negative, their product must not overflow, and the granularity must be
// valid.
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

// Checks the sizes and the granularity of a problem: nothing negative, no overflow in elements or bytes, groups of at
// least 1.
Status check_extent(std::string_view op, std::int64_t rows, std::int64_t k, DType dtype,
                    const Granularity& granularity);

// Every scale is finite and above 0; the error names the first that is not. On a GPU the kernels check scales instead.
Status check_scales(const Where& where, std::string_view argument, const float* scales, std::int64_t count);

}  // namespace tern
