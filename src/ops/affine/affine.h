// What the affine ops share: which scale an element has, and a tensor seen as lines along its last axis.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "format/format.h"
#include "ops/views.h"
#include "tern/affine.h"

namespace tern::affine {

// A problem's words that every op of the family has, checked: sizes, axis, group, dtypes, format.
struct Words {
  Shape shape;
  AffineGranularity granularity;
  DType dtype = DType::f32;
  Format format = Format::s8;
  DType scale_dtype = DType::f32;
  bool even_groups = false;
};
Status check_words(std::string_view op, const Words& words);

// The axis a granularity speaks of, counted from 0. The granularity must have been checked.
int axis_of(const Shape& shape, const AffineGranularity& granularity);
// Rows of a shape: its elements without the last axis; and the last axis, 1 where there is none.
std::int64_t rows_of(const Shape& shape);
std::int64_t last_of(const Shape& shape);

// The scale of the element with these indices: the definition, which the references use.
std::int64_t range_of(const Shape& shape, const AffineGranularity& granularity, const std::int64_t* at);

// Scales and zero points of a call. Zero points are null where all are 0.
struct Qparams {
  const void* scales = nullptr;
  DType scale_dtype = DType::f32;
  const std::int32_t* zero_points = nullptr;
  std::int64_t count = 0;
};
// Every scale finite and above 0 (with `reciprocal`, 1/s as well), every zero point in [q_min, q_max].
struct QparamsRules {
  bool zero_points = false;
  CodeRange q = {};
  bool reciprocal = false;
  DType math = DType::f32;  // that 1/s is computed in
};
Result<Qparams> bind_qparams(const Where& where, const Words& words, const QparamsRules& rules,
                             const ConstTensorView& scales, const ConstTensorView& zero_points);

// A tensor as lines of k elements along its last axis. Axes are folded where strides and scales allow it, so that a
// line is as long as it can be; elements keep their row-major order.
struct Lines {
  enum class Run : std::uint8_t {
    one,     // a line has one scale
    groups,  // a line has a scale for each `group` elements
    each,    // every element of a line has its own
  };
  std::int64_t count = 0, k = 0;
  Run run = Run::one;
  std::int64_t group = 0;       // of Run::groups
  std::int64_t code_bytes = 0;  // from one line of codes to the next

  // The first scale of a line.
  [[nodiscard]] std::int64_t scale_of(std::int64_t line) const {
    const std::int64_t a = line / below % axis;
    return line / below / axis * outer_step + a / per_scale * axis_step + line % below * below_step;
  }
  // Where a line begins in the strided tensor, in elements.
  [[nodiscard]] std::int64_t offset_of(std::int64_t line) const {
    std::int64_t offset = 0;
    for (int i = leading - 1; i > 0; --i) {
      offset += line % sizes[static_cast<std::size_t>(i)] * strides[static_cast<std::size_t>(i)];
      line /= sizes[static_cast<std::size_t>(i)];
    }
    return leading == 0 ? 0 : offset + line * strides[0];
  }

  // line = (outer * axis + a) * below + b; elements a of the axis share a scale by `per_scale`.
  std::int64_t below = 1, axis = 1, per_scale = 1, outer_step = 0, axis_step = 0, below_step = 0;
  int leading = 0;
  std::array<std::int64_t, Shape::kMaxRank> sizes{}, strides{};
  std::int64_t last_stride = 1;
};
// The problem must not be empty.
Lines make_lines(const Words& words, const Shape& strides, std::int64_t code_row_bytes);

// The error of the first non-finite element, by its row-major index.
Error non_finite_error(std::string_view op, const ConstTensorView& x);

}  // namespace tern::affine
