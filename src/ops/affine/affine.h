// Shared by the affine ops: which scale an element has, and a tensor seen as lines along its last axis.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "base/views.h"
#include "format/format.h"
#include "ops/op.h"
#include "tern/affine.h"

namespace tern::affine {

// The problem fields that every affine op has. check_words() checks sizes, axis, group, dtypes and format.
struct Words {
  Shape shape;
  AffineGranularity granularity;
  DType dtype = DType::f32;
  Format format = Format::s8;
  DType scale_dtype = DType::f32;
  bool even_groups = false;
};
Status check_words(std::string_view op, const Words& words);
template <class Problem>
Words words_of(const Problem& p) {
  return {.shape = p.shape,
          .granularity = p.granularity,
          .dtype = p.dtype,
          .format = p.format,
          .scale_dtype = p.scale_dtype,
          .even_groups = p.even_groups};
}
// Converts a problem of one op that computes x/s to that of another: copies the fields that both have.
template <class Op, class Problem>
typename Op::Problem problem_of(const Problem& p) {
  typename Op::Problem to;
  to.shape = p.shape;
  to.granularity = p.granularity;
  to.dtype = p.dtype;
  to.format = p.format;
  to.scale_dtype = p.scale_dtype;
  to.zero_points = p.zero_points;
  to.q_min = p.q_min;
  to.q_max = p.q_max;
  to.math = p.math;
  to.non_finite = p.non_finite;
  to.even_groups = p.even_groups;
  return to;
}
// A problem in words: a matrix, whose rows are tokens.
template <class Op>
typename Op::Problem problem_of_words(const ProblemWords& words) {
  typename Op::Problem p;
  p.shape = {words.rows, words.k};
  p.granularity = words.granularity.kind == Granularity::Kind::tensor ? AffineGranularity::tensor()
                  : words.granularity.kind == Granularity::Kind::row
                      ? AffineGranularity::token()
                      : AffineGranularity::group(words.granularity.group_size);
  p.dtype = words.dtype.value_or(DType::f32);
  p.format = words.format.value_or(Format::s8);
  p.zero_points = words.zero_points.value_or(false);
  if constexpr (requires { p.method; }) {
    p.method = words.method;
    p.zero_points = words.zero_points.value_or(p.method == QparamsMethod::minmax);
  }
  return p;
}
// The range that codes are clamped to; a bound that is not given is the format's. Without zero points the range must
// contain 0.
Result<CodeRange> code_bounds(std::string_view op, Format format, std::optional<int> q_min, std::optional<int> q_max,
                              bool zero_points);
// Whether x/s is computed in f64.
constexpr bool in_f64(DType dtype, AffineMath math) { return dtype == DType::f64 || math == AffineMath::torch_cuda; }

// The granularity's axis, counted from 0. The granularity must have been checked.
int axis_of(const Shape& shape, const AffineGranularity& granularity);
// rows_of: the product of all axes but the last. last_of: the size of the last axis, 1 for rank 0.
std::int64_t rows_of(const Shape& shape);
std::int64_t last_of(const Shape& shape);
inline bool is_empty(const Shape& shape) { return rows_of(shape) == 0 || last_of(shape) == 0; }
inline std::int64_t elements_of(const Shape& shape) { return rows_of(shape) * last_of(shape); }

// Codes of a tensor: as its shape, the last axis as many bytes as its codes take.
Shape code_shape(const Shape& shape, Format format);
inline Area code_area(const Shape& shape, Format format, std::int64_t stride_bytes) {
  return Area::strided(rows_of(shape), row_bytes(format, last_of(shape)), stride_bytes);
}
// The number of scales of a problem that was checked.
template <class Problem>
std::int64_t scales_of(const Problem& p) {
  return *affine_scale_count(p.shape, p.granularity);
}
// The scales and zero points among the operands of a call, and among a run's memory.
template <class Problem, class Args, class See>
void see_qparams(const Problem& p, Args& args, See&& see) {
  const Shape ranges{scales_of(p)};
  see("scales", args.scales, p.scale_dtype, ranges);
  if (p.zero_points) see("zero_points", args.zero_points, DType::i32, ranges);
}
template <class Q, class See>
void see_memory(Q& qparams, See&& see) {
  see(qparams.scales, Area::dense(qparams.count, size_of(qparams.scale_dtype)));
  see(qparams.zero_points, Area::dense(qparams.count, 4));
}

// The indices of an element, computed by place_of() from its row-major number. offset() gives the element's offset in a
// strided tensor, range_of() the number of its scale. This is the definition; the references use it.
struct Place {
  std::array<std::int64_t, Shape::kMaxRank> at{};
  [[nodiscard]] std::int64_t offset(const Shape& strides) const {
    std::int64_t sum = 0;
    for (int i = 0; i < strides.rank(); ++i) sum += at[static_cast<std::size_t>(i)] * strides[i];
    return sum;
  }
};
Place place_of(const Shape& shape, std::int64_t element);
std::int64_t range_of(const Shape& shape, const AffineGranularity& granularity, const Place& place);

// Scales and zero points of a call. `zero_points` is null if all are 0.
struct Qparams {
  const void* scales = nullptr;
  DType scale_dtype = DType::f32;
  const std::int32_t* zero_points = nullptr;
  std::int64_t count = 0;
};
// What bind_qparams() checks on a CPU: every scale is finite and above 0, with `reciprocal` 1/s is finite too, and
// every zero point is in [q_min, q_max]. On a GPU the kernels check the values.
struct QparamsRules {
  bool zero_points = false;
  CodeRange q = {};
  bool reciprocal = false;
  DType math = DType::f32;  // the type 1/s is computed in
};
// The rules of a problem that computes x/s and clamps codes to q.
template <class Problem>
QparamsRules rules_of(const Problem& p, CodeRange q) {
  return {.zero_points = p.zero_points,
          .q = q,
          .reciprocal = p.math == AffineMath::reciprocal,
          .math = in_f64(p.dtype, p.math) ? DType::f64 : DType::f32};
}
Result<Qparams> bind_qparams(const Where& where, const Words& words, const QparamsRules& rules,
                             const ConstTensorView& scales, const ConstTensorView& zero_points);

struct Named {
  std::string_view name;
  ConstTensorView view;
};
// Fails if the output shares a byte with one of the others. Views without data are skipped.
Status check_all_apart(std::string_view op, const Named& output, std::initializer_list<Named> others);

// A tensor as lines of k elements along its last axis. Axes are merged where strides and scales allow it, to make lines
// as long as possible; elements keep their row-major order.
struct Lines {
  enum class Run : std::uint8_t {
    one,     // a line has one scale
    groups,  // a line has a scale for each `group` elements
    each,    // every element of a line has its own scale
  };
  std::int64_t count = 0, k = 0;
  Run run = Run::one;
  std::int64_t group = 0;       // of Run::groups
  std::int64_t code_bytes = 0;  // from one line of codes to the next

  // The first scale of a line.
  [[nodiscard]] constexpr std::int64_t scale_of(std::int64_t line) const {
    const std::int64_t a = line / below % axis;
    return line / below / axis * outer_step + a / per_scale * axis_step + line % below * below_step;
  }
  // The offset of a line in a strided tensor, in elements.
  [[nodiscard]] constexpr std::int64_t offset_of(std::int64_t line, std::size_t tensor = 0) const {
    const Strides& of = tensors[tensor];
    std::int64_t offset = 0;
    for (int i = leading - 1; i > 0; --i) {
      offset += line % sizes[static_cast<std::size_t>(i)] * of.leading[static_cast<std::size_t>(i)];
      line /= sizes[static_cast<std::size_t>(i)];
    }
    return leading == 0 ? 0 : offset + line * of.leading[0];
  }

  // line = (outer * axis + a) * below + b; `per_scale` neighbouring indices a share a scale.
  std::int64_t below = 1, axis = 1, per_scale = 1, outer_step = 0, axis_step = 0, below_step = 0;
  int leading = 0;
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  struct Strides {
    std::array<std::int64_t, Shape::kMaxRank> leading{};
    std::int64_t last = 1;
  };
  static constexpr std::size_t kMaxTensors = 3;
  std::array<Strides, kMaxTensors> tensors{};
};
// `strides` has one entry for each tensor of the problem's shape. The problem must not be empty.
Lines make_lines(const Words& words, std::span<const Shape> strides, std::int64_t code_row_bytes);
inline Lines make_lines(const Words& words, const Shape& strides, std::int64_t code_row_bytes) {
  return make_lines(words, std::span(&strides, 1), code_row_bytes);
}

// The number of elements in the longest range.
std::int64_t longest_range(const Shape& shape, const AffineGranularity& granularity);

// The error for the first non-finite element of x in row-major order.
Error non_finite_error(std::string_view op, const ConstTensorView& x);

}  // namespace tern::affine
