// Maps the ranges of a tensor to lines, for ops that need all elements of a range together.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "ops/affine/affine.h"

namespace tern::affine {

// With Run::one and Run::groups: one range, which has a piece on each of its lines. With Run::each: several adjacent
// ranges, one for each column of the same lines. The elements of a range are in row-major order, line by line.
struct Family {
  std::int64_t range = 0;   // the range's number; with Run::each that of the first column
  std::int64_t lines = 1;   // number of lines
  std::int64_t column = 0;  // where the piece begins on each line
  std::int64_t len = 0;     // elements of a piece
  [[nodiscard]] constexpr std::int64_t line(std::int64_t i) const { return base + i / inner * outer_step + i % inner; }

  std::int64_t base = 0, inner = 1, outer_step = 1;
};

class Families {
 public:
  explicit constexpr Families(const Lines& lines) : lines_(lines) {
    const std::int64_t outers = lines.count / (lines.axis * lines.below);
    if (lines.run == Lines::Run::groups) {
      per_line_ = ceil_div(lines.k, lines.group);
      count_ = lines.count * per_line_;
    } else if (lines.run == Lines::Run::one) {
      count_ = lines.axis;
    } else if (lines.axis_step != 0) {  // groups along another axis; otherwise each column of the tensor is a range
      per_line_ = ceil_div(lines.axis, lines.per_scale);
      count_ = outers * per_line_ * lines.below;
    }
  }
  [[nodiscard]] constexpr std::int64_t count() const { return count_; }
  [[nodiscard]] constexpr Family operator[](std::int64_t f) const {
    const Lines& l = lines_;
    if (l.run == Lines::Run::groups) {
      const std::int64_t line = f / per_line_, group = f % per_line_, column = group * l.group;
      return {
          .range = l.scale_of(line) + group, .column = column, .len = std::min(l.group, l.k - column), .base = line};
    }
    if (l.run == Lines::Run::one)
      return {.range = f * l.axis_step,
              .lines = l.count / l.axis,
              .len = l.k,
              .base = f * l.below,
              .inner = l.below,
              .outer_step = l.axis * l.below};
    if (l.axis_step == 0) return {.lines = l.count, .len = l.k};
    const std::int64_t b = f % l.below, group = f / l.below % per_line_, outer = f / l.below / per_line_;
    const std::int64_t first = (outer * l.axis + group * l.per_scale) * l.below + b;
    return {.range = l.scale_of(first),
            .lines = std::min(l.per_scale, l.axis - group * l.per_scale),
            .len = l.k,
            .base = first,
            .outer_step = l.below};
  }

 private:
  Lines lines_;  // a copy, because it is passed to GPU kernels by value
  std::int64_t count_ = 1, per_line_ = 1;
};

}  // namespace tern::affine
