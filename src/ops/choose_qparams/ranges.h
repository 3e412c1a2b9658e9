// Where the elements of every range lie: the same number of elements of some lines.
//
//     tensor         all lines                     group of the last axis   a part of one line
//     token          one line                      channel, the last axis   one element of every line
//     channel        every line of its index       group of another axis    one element of as many lines
//
// Lines that share their ranges are a family.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "ops/affine/affine.h"
#include "tern/qparams.h"

namespace tern::choose_qparams {

// Methods that look at a range many times work on a copy.
inline bool copies_ranges(const ChooseQparams::Problem& p) {
  return p.method == QparamsMethod::percentile || p.method == QparamsMethod::mse;
}
constexpr std::int64_t kMostCopied = std::int64_t{1} << 40;  // elements: their bytes, for all threads, fit in 63 bits

class Families {
 public:
  explicit Families(const affine::Lines& lines)
      : lines_(lines),
        axis_(lines.axis_step == 0 ? 1 : lines.axis),
        outer_(lines.count / (axis_ * lines.below)),
        groups_(ceil_div(axis_, lines.per_scale)) {}

  [[nodiscard]] std::int64_t count() const { return apart() ? outer_ * groups_ * lines_.below : axis_; }
  [[nodiscard]] std::int64_t lines(std::int64_t family) const {
    if (!apart()) return lines_.count / axis_;
    return std::min(lines_.per_scale, axis_ - group(family) * lines_.per_scale);
  }
  // Line j of a family, in row-major order.
  [[nodiscard]] std::int64_t line(std::int64_t family, std::int64_t j) const {
    const std::int64_t below = lines_.below;
    if (!apart()) return (j / below * axis_ + family) * below + j % below;
    const std::int64_t outer = family / below / groups_;
    return (outer * axis_ + group(family) * lines_.per_scale + j) * below + family % below;
  }
  // Ranges of a family; those of the one before come first.
  [[nodiscard]] std::int64_t ranges() const {
    switch (lines_.run) {
      case affine::Lines::Run::one: return 1;
      case affine::Lines::Run::groups: return ceil_div(lines_.k, lines_.group);
      case affine::Lines::Run::each: break;
    }
    return lines_.k;
  }

 private:
  // Whether other outer and lower indices have other ranges: those of a group along another axis.
  [[nodiscard]] bool apart() const { return lines_.below_step != 0; }
  [[nodiscard]] std::int64_t group(std::int64_t family) const { return family / lines_.below % groups_; }

  const affine::Lines& lines_;
  std::int64_t axis_, outer_, groups_;
};

// A range: `len` elements of each of `lines` lines of its family, from `column` on.
struct Range {
  std::int64_t family = 0, lines = 0, column = 0, len = 0;
};
inline Range range_at(const affine::Lines& lines, const Families& families, std::int64_t index) {
  const std::int64_t family = index / families.ranges(), i = index % families.ranges();
  Range range{.family = family, .lines = families.lines(family), .column = 0, .len = lines.k};
  if (lines.run == affine::Lines::Run::groups) range.column = i * lines.group;
  if (lines.run == affine::Lines::Run::groups) range.len = std::min(lines.group, lines.k - range.column);
  if (lines.run == affine::Lines::Run::each) range.column = i;
  if (lines.run == affine::Lines::Run::each) range.len = 1;
  return range;
}

}  // namespace tern::choose_qparams
