// Argument checks and line layout for all affine ops, and the functions of tern/affine.h.
#include "ops/affine/affine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/checked.h"
#include "base/elements.h"
#include "base/errors.h"
#include "base/words.h"

namespace tern {
namespace {

using Kind = AffineGranularity::Kind;

Status check_granularity(std::string_view op, const Shape& shape, const AffineGranularity& g) {
  if (g.kind == Kind::tensor || g.kind == Kind::token) return {};
  if (g.axis < -shape.rank() || g.axis >= shape.rank())
    return error(Code::invalid_argument, op, "axis {} of {} does not exist", g.axis, name(shape));
  if (g.kind == Kind::group && g.group_size < 1)
    return error(Code::invalid_argument, op, "group size is {}; it must be at least 1", g.group_size);
  return {};
}

// The shape of the scales. The granularity must have been checked.
Shape scale_shape(const Shape& shape, const AffineGranularity& g) {
  Shape of = shape;
  switch (g.kind) {
    case Kind::tensor: return {};
    case Kind::channel: return {shape[affine::axis_of(shape, g)]};
    case Kind::token:
      if (shape.rank() > 0) of[shape.rank() - 1] = 1;
      return of;
    case Kind::group: break;
  }
  std::int64_t& size = of[affine::axis_of(shape, g)];
  size = ceil_div(size, g.group_size);
  return of;
}

constexpr WordTable<AffineMath, 3> kMaths = {{{AffineMath::division, "division"},
                                              {AffineMath::reciprocal, "reciprocal"},
                                              {AffineMath::torch_cuda, "torch_cuda"}}};

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16;
}

}  // namespace

std::string_view name(AffineMath v) { return word_of(kMaths, v); }
Result<AffineMath> parse_affine_math(std::string_view text) { return parse_word(kMaths, "affine math", text); }

std::string name(const AffineGranularity& g) {
  switch (g.kind) {
    case Kind::tensor: return "tensor";
    case Kind::channel: return fmt::format("channel:{}", g.axis);
    case Kind::token: return "token";
    case Kind::group: break;
  }
  return g.axis == -1 ? fmt::format("group:{}", g.group_size) : fmt::format("group:{}:{}", g.group_size, g.axis);
}

Result<AffineGranularity> parse_affine_granularity(std::string_view text) {
  const auto wrong = [&] {
    return error(Code::invalid_argument, "granularity",
                 "'{}' is not one of tensor, token, channel:AXIS, group:N, group:N:AXIS", printable(text));
  };
  const std::string_view word = text.substr(0, text.find(':'));
  std::array<std::int64_t, 2> numbers{};
  std::size_t count = 0;
  for (std::string_view rest = text.substr(word.size()); !rest.empty(); ++count) {
    rest.remove_prefix(1);
    const std::string_view digits = rest.substr(0, rest.find(':'));
    const auto number = whole_number(digits);
    if (count == numbers.size() || !number) return wrong();
    numbers[count] = *number;
    rest.remove_prefix(digits.size());
  }
  const auto is_axis = [](std::int64_t n) { return n >= -Shape::kMaxRank && n < Shape::kMaxRank; };
  if (word == "tensor" && count == 0) return AffineGranularity::tensor();
  if (word == "token" && count == 0) return AffineGranularity::token();
  if (word == "channel" && count == 1 && is_axis(numbers[0]))
    return AffineGranularity::channel(static_cast<int>(numbers[0]));
  if (word != "group") return wrong();
  if (count == 0)
    return error(Code::invalid_argument, "granularity", "'{}' does not say how many share a scale; give group:128, say",
                 printable(text));
  if (numbers[0] < 1 || (count == 2 && !is_axis(numbers[1]))) return wrong();
  return AffineGranularity::group(numbers[0], count == 2 ? static_cast<int>(numbers[1]) : -1);
}

Result<std::int64_t> affine_scale_count(const Shape& shape, const AffineGranularity& granularity) {
  TERN_RETURN_IF_ERROR(element_count(shape));
  TERN_RETURN_IF_ERROR(check_granularity("affine_scale_count", shape, granularity));
  return element_count(scale_shape(shape, granularity));
}

namespace affine {

int axis_of(const Shape& shape, const AffineGranularity& g) { return g.axis < 0 ? g.axis + shape.rank() : g.axis; }
std::int64_t last_of(const Shape& shape) { return shape.rank() == 0 ? 1 : shape[shape.rank() - 1]; }
Shape code_shape(const Shape& shape, Format format) {
  Shape codes = shape;
  if (shape.rank() > 0) codes[shape.rank() - 1] = row_bytes(format, shape[shape.rank() - 1]);
  return codes;
}

std::int64_t rows_of(const Shape& shape) {
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < shape.rank(); ++i) rows *= shape[i];
  return rows;
}

Place place_of(const Shape& shape, std::int64_t element) {
  Place place;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    place.at[static_cast<std::size_t>(axis)] = element % shape[axis];
    element /= shape[axis];
  }
  return place;
}

std::int64_t range_of(const Shape& shape, const AffineGranularity& g, const Place& place) {
  if (g.kind == Kind::tensor) return 0;
  const int axis = axis_of(shape, g);
  if (g.kind == Kind::channel) return place.at[static_cast<std::size_t>(axis)];
  const Shape scales = scale_shape(shape, g);
  std::int64_t range = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    std::int64_t index = place.at[static_cast<std::size_t>(i)];
    if (g.kind == Kind::token && i == shape.rank() - 1) index = 0;
    if (g.kind == Kind::group && i == axis) index /= g.group_size;
    range = range * scales[i] + index;
  }
  return range;
}

Status check_words(std::string_view op, const Words& w) {
  auto elements = element_count(w.shape);
  if (!elements.ok()) return error(Code::invalid_argument, op, "{}", elements.error().message);
  if (*elements == 0) {  // the product of the other axes must not overflow either
    Shape rest = w.shape;
    for (int i = 0; i < rest.rank(); ++i) rest[i] = rest[i] == 0 ? 1 : rest[i];
    if (auto count = element_count(rest); !count.ok())
      return error(Code::invalid_argument, op, "{}", count.error().message);
  }
  if (!is_float(w.dtype))
    return error(Code::invalid_argument, op, "{} is not a float type; give f32, f64, f16 or bf16", name(w.dtype));
  if (!checked_mul(*elements, static_cast<std::int64_t>(size_of(w.dtype))))
    return error(Code::invalid_argument, op, "{} of {} has more bytes than 2^63 - 1", name(w.shape), name(w.dtype));
  if (!is_affine(w.format))
    return error(Code::invalid_argument, op, "affine codes do not go into {}; take {}", name(w.format),
                 affine_holders());
  if (w.scale_dtype != DType::f32 && w.scale_dtype != w.dtype)
    return error(Code::invalid_argument, op, "scales are {}; they are f32 or {}, as the floats", name(w.scale_dtype),
                 name(w.dtype));
  TERN_RETURN_IF_ERROR(check_granularity(op, w.shape, w.granularity));
  if (w.even_groups && w.granularity.kind == Kind::group) {
    const std::int64_t size = w.shape[axis_of(w.shape, w.granularity)];
    if (size % w.granularity.group_size != 0)
      return error(Code::invalid_argument, op,
                   "an axis of {} does not divide into groups of {}, and even_groups asks for that", size,
                   w.granularity.group_size);
  }
  return {};
}

Result<CodeRange> code_bounds(std::string_view op, Format format, std::optional<int> q_min, std::optional<int> q_max,
                              bool zero_points) {
  const CodeRange all = code_range(format);
  const CodeRange q{q_min.value_or(all.min), q_max.value_or(all.max)};
  if (q.min > q.max) return error(Code::invalid_argument, op, "q_min is {}, above q_max {}", q.min, q.max);
  if (q.min < all.min || q.max > all.max)
    return error(Code::invalid_argument, op, "codes of {} to {} do not go into {}, which holds {} to {}", q.min, q.max,
                 name(format), all.min, all.max);
  if (!zero_points && (q.min > 0 || q.max < 0))
    return error(Code::invalid_argument, op,
                 "without zero points they are 0, which is not one of the codes {} to {}; ask for zero points", q.min,
                 q.max);
  return q;
}

Status check_all_apart(std::string_view op, const Named& output, std::initializer_list<Named> others) {
  for (const Named& other : others)
    if (other.view.data != nullptr)
      TERN_RETURN_IF_ERROR(check_apart(op, other.name, bytes_of(other.view), output.name, bytes_of(output.view)));
  return {};
}

namespace {

// 1/s as the kernels compute it, in f32 or f64, and the smallest s for which it is finite.
double inverse_of(double s, DType math) {
  return math == DType::f64 ? 1.0 / s : static_cast<double>(1.0F / static_cast<float>(s));
}
double smallest_with_inverse(DType math) {
  if (math == DType::f64) return std::nextafter(1.0 / std::numeric_limits<double>::max(), 1.0);
  return static_cast<double>(std::nextafter(1.0F / std::numeric_limits<float>::max(), 1.0F));
}

}  // namespace

Result<Qparams> bind_qparams(const Where& where, const Words& words, const QparamsRules& rules,
                             const ConstTensorView& scales, const ConstTensorView& zero_points) {
  TERN_ASSIGN(count, affine_scale_count(words.shape, words.granularity));
  TERN_RETURN_IF_ERROR(check_dense(where, "scales", scales, words.scale_dtype, count));
  if (rules.zero_points) TERN_RETURN_IF_ERROR(check_dense(where, "zero_points", zero_points, DType::i32, count));
  const Qparams qparams{.scales = scales.data,
                        .scale_dtype = words.scale_dtype,
                        .zero_points = rules.zero_points ? static_cast<const std::int32_t*>(zero_points.data) : nullptr,
                        .count = count};
  if (where.device.kind != DeviceKind::cpu) return qparams;
  for (std::int64_t i = 0; i < count; ++i) {
    const double s = read_element(scales.data, words.scale_dtype, i);
    InvalidValue bad{.value = s, .lowest = smallest_of(words.scale_dtype), .highest = largest_of(words.scale_dtype)};
    if (!(s > 0) || !std::isfinite(s))
      return with(bad,
                  error_at(i, Code::invalid_scale, where.op, "scales[{}] is {}; it must be finite and above 0", i, s));
    if (rules.reciprocal && !std::isfinite(inverse_of(s, rules.math))) {
      bad.lowest = smallest_with_inverse(rules.math);
      return with(bad, error_at(i, Code::invalid_scale, where.op,
                                "1/scales[{}] is infinite: {} is too small for reciprocal", i, s));
    }
    if (!rules.zero_points) continue;
    const auto zp = load_element<std::int32_t>(qparams.zero_points, i);
    if (zp < rules.q.min || zp > rules.q.max)
      return with(InvalidValue{.value = static_cast<double>(zp),
                               .lowest = static_cast<double>(rules.q.min),
                               .highest = static_cast<double>(rules.q.max)},
                  error_at(i, Code::invalid_argument, where.op, "zero_points[{}] is {}, not one of {} to {}", i, zp,
                           rules.q.min, rules.q.max));
  }
  return qparams;
}

namespace {

// Whether the scales allow the last two axes to be merged: the whole tensor has one scale, or the granularity's axis
// comes before both, or groups divide the last axis evenly.
bool scales_fold(const Shape& shape, const AffineGranularity& g) {
  const int last = shape.rank() - 1, axis = axis_of(shape, g);
  switch (g.kind) {
    case Kind::tensor: return true;
    case Kind::channel: return axis < last - 1;
    case Kind::token: return false;
    case Kind::group: break;
  }
  return axis < last - 1 || (axis == last && shape[last] % g.group_size == 0);
}

Shape first_axes(const Shape& shape, int count) {
  return Shape(std::span<const std::int64_t>(shape.sizes().data(), static_cast<std::size_t>(count)));
}

}  // namespace

Lines make_lines(const Words& words, std::span<const Shape> strides, std::int64_t code_row_bytes) {
  Shape shape = words.shape.rank() == 0 ? Shape{1} : words.shape;
  std::array<Shape, Lines::kMaxTensors> storage;
  const std::span<Shape> steps(storage.data(), strides.size());
  for (std::size_t t = 0; t < steps.size(); ++t) steps[t] = words.shape.rank() == 0 ? Shape{1} : strides[t];
  const auto all = [&](auto fits) { return std::all_of(steps.begin(), steps.end(), fits); };
  AffineGranularity g = words.granularity;
  if (g.kind == Kind::channel || g.kind == Kind::group) g.axis = axis_of(words.shape, g);
  const int per_byte = codes_per_byte(words.format);
  Lines lines{.code_bytes = code_row_bytes};
  for (int last = shape.rank() - 1; last > 0; --last) {
    const bool dense =
        all([&](const Shape& s) { return s[last] == 1 && (shape[last - 1] == 1 || s[last - 1] == shape[last]); });
    const bool whole_bytes = shape[last] % per_byte == 0 && lines.code_bytes == shape[last] / per_byte;
    if (!dense || !whole_bytes || !scales_fold(shape, g)) break;
    if (g.kind == Kind::group && g.axis == last) g.axis = last - 1;
    lines.code_bytes *= shape[last - 1];
    const std::int64_t merged = shape[last - 1] * shape[last];
    shape = first_axes(shape, last);
    shape[last - 1] = merged;
    for (Shape& s : steps) {
      s = first_axes(s, last);
      s[last - 1] = 1;
    }
  }
  const int last = shape.rank() - 1;
  lines.count = rows_of(shape);
  lines.k = shape[last];
  for (std::size_t t = 0; t < steps.size(); ++t) lines.tensors[t].last = lines.k == 1 ? 1 : steps[t][last];
  for (int i = 0; i < last; ++i) {  // leading axes; evenly spaced neighbours become one
    if (shape[i] == 1) continue;
    const int before = lines.leading - 1;  // the last axis kept so far
    bool even = before >= 0;
    for (std::size_t t = 0; t < steps.size() && even; ++t)
      even = lines.tensors[t].leading[static_cast<std::size_t>(before)] == shape[i] * steps[t][i];
    const auto at = static_cast<std::size_t>(even ? before : lines.leading++);
    lines.sizes[at] = even ? lines.sizes[at] * shape[i] : shape[i];
    for (std::size_t t = 0; t < steps.size(); ++t) lines.tensors[t].leading[at] = steps[t][i];
  }
  if (g.kind == Kind::tensor) return lines;
  lines.axis = lines.count;
  lines.axis_step = 1;
  if (g.kind == Kind::token) return lines;
  if (g.axis == last) {
    lines.run = g.kind == Kind::channel ? Lines::Run::each : Lines::Run::groups;
    lines.group = g.group_size;
    lines.axis_step = g.kind == Kind::channel ? 0 : ceil_div(lines.k, g.group_size);
    return lines;
  }
  lines.axis = shape[g.axis];
  for (int i = g.axis + 1; i < last; ++i) lines.below *= shape[i];
  if (g.kind == Kind::channel) return lines;
  lines.run = Lines::Run::each;
  lines.per_scale = g.group_size;
  lines.below_step = lines.k;
  lines.axis_step = lines.below * lines.k;
  lines.outer_step = ceil_div(lines.axis, g.group_size) * lines.axis_step;
  return lines;
}

std::int64_t longest_range(const Shape& shape, const AffineGranularity& g) {
  const std::int64_t elements = rows_of(shape) * last_of(shape);
  if (elements == 0) return 0;
  switch (g.kind) {
    case Kind::tensor: return elements;
    case Kind::channel: return elements / shape[axis_of(shape, g)];
    case Kind::token: return last_of(shape);
    case Kind::group: break;
  }
  return std::min(g.group_size, shape[axis_of(shape, g)]);
}

Error non_finite_error(std::string_view op, const ConstTensorView& x) {
  const std::int64_t elements = rows_of(x.shape) * last_of(x.shape);
  for (std::int64_t i = 0; i < elements; ++i) {
    const double v = read_element(x.data, x.dtype, place_of(x.shape, i).offset(x.strides));
    if (!std::isfinite(v))
      return error_at(i, Code::non_finite, op, "x (element {}) is {}; mend it, or ask for non_finite = saturate", i, v);
  }
  return error(Code::internal, op, "a kernel refused elements that are all finite");
}

}  // namespace affine
}  // namespace tern
