// Random problems of the affine ops with their data: every granularity, ragged groups, odd shapes, odd zero points.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/elements.h"
#include "base/fmt.h"
#include "format/format.h"
#include "lab/weights.h"
#include "tern/affine.h"

namespace tern::lab {

inline const std::vector<Format> kAffineFormats = affine_formats();
inline constexpr DType kFloatTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

struct AffineInput {
  AffineQuantize::Problem problem;
  std::vector<std::byte> x, scales;
  std::vector<std::int32_t> zero_points;
};

// The range that the codes of a problem are clamped to.
template <class Problem>
CodeRange bounds_of(const Problem& p) {
  const CodeRange all = code_range(p.format);
  return {p.q_min.value_or(all.min), p.q_max.value_or(all.max)};
}

inline std::string describe(const AffineQuantize::Problem& p) {
  return fmt::format("{} {} {} {} scales {}{} q {}..{} {} {}", name(p.shape), name(p.dtype), name(p.granularity),
                     name(p.format), name(p.scale_dtype), p.zero_points ? " zero points" : "", bounds_of(p).min,
                     bounds_of(p).max, name(p.math), name(p.non_finite));
}

inline Shape random_shape(Random& random) {
  constexpr std::int64_t kLast[] = {1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000, 2049, 5000};
  constexpr std::int64_t kOther[] = {1, 2, 3, 4, 7};
  const std::int64_t rank = 1 + random.below(4);
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i + 1 < rank; ++i) sizes.push_back(kOther[random.below(5)]);
  sizes.push_back(kLast[random.below(rank > 2 ? 16 : 19)]);
  return Shape(std::span<const std::int64_t>(sizes));
}

inline AffineGranularity random_granularity(Random& random, const Shape& shape) {
  constexpr std::int64_t kGroups[] = {1, 2, 3, 7, 32, 100, 128, 1000};
  const int axis = static_cast<int>(random.below(shape.rank()));
  switch (random.below(6)) {
    case 0: return AffineGranularity::tensor();
    case 1: return AffineGranularity::token();
    case 2: return AffineGranularity::channel(axis - static_cast<int>(random.below(2)) * shape.rank());
    case 3: return AffineGranularity::group(1 + random.below(4), axis);
    default: return AffineGranularity::group(kGroups[random.below(8)]);
  }
}

// A random problem with x around the codes of its scale: ties, the ends of the range, values far outside.
inline AffineInput random_affine(Random& random, DType dtype, Format format) {
  AffineInput in;
  auto& p = in.problem;
  p.shape = random_shape(random);
  p.granularity = random_granularity(random, p.shape);
  p.dtype = dtype;
  p.format = format;
  p.scale_dtype = random.below(2) == 0 ? DType::f32 : dtype;
  p.zero_points = random.below(2) == 0;
  p.math = static_cast<AffineMath>(random.below(3));
  const CodeRange all = code_range(format);
  if (random.below(3) == 0) {
    p.q_min = all.min + static_cast<int>(random.below(2));
    p.q_max = all.max - static_cast<int>(random.below(2));
  }
  const CodeRange q = bounds_of(p);
  if (!p.zero_points && (q.min > 0 || q.max < 0)) p.zero_points = true;
  const std::int64_t scales = *affine_scale_count(p.shape, p.granularity);
  in.scales.resize(static_cast<std::size_t>(scales) * size_of(p.scale_dtype));
  for (std::int64_t i = 0; i < scales; ++i)
    write_element(
        in.scales.data(), p.scale_dtype, i,
        static_cast<double>(std::ldexp(1.0F + std::fabs(random.gaussian()), -static_cast<int>(random.below(10)))));
  for (std::int64_t i = 0; i < scales && p.zero_points; ++i)
    in.zero_points.push_back(q.min + static_cast<int>(random.below(q.max - q.min + 1)));
  const std::int64_t elements = *element_count(p.shape);
  in.x.resize(static_cast<std::size_t>(elements) * size_of(dtype));
  for (std::int64_t i = 0; i < elements; ++i) {
    const double s = read_element(in.scales.data(), p.scale_dtype, random.below(scales));
    double v = static_cast<double>(random.below(2 * (all.max - all.min + 2))) / 2 - (all.max - all.min + 1);
    if (random.below(3) == 0) v += static_cast<double>(random.gaussian());
    if (random.below(50) == 0) v *= 1e30;
    v *= s;
    if (dtype == DType::f16) v = std::fmin(std::fmax(v, -65504.0), 65504.0);
    write_element(in.x.data(), dtype, i, v);
  }
  return in;
}

struct AffineCodes {
  AffineDequantize::Problem problem;
  std::vector<std::uint8_t> codes;
  std::vector<std::byte> scales;
  std::vector<std::int32_t> zero_points;
};

inline std::string describe(const AffineDequantize::Problem& p) {
  return fmt::format("{} {} {} {} scales {}{}", name(p.shape), name(p.dtype), name(p.granularity), name(p.format),
                     name(p.scale_dtype), p.zero_points ? " zero points" : "");
}

// A random problem of affine_dequantize: any byte is valid in every affine format. Some scales let products overflow or
// fall below the smallest normal.
inline AffineCodes random_codes(Random& random, DType dtype, Format format) {
  AffineInput from = random_affine(random, dtype, format);
  AffineCodes in;
  in.problem = {.shape = from.problem.shape,
                .granularity = from.problem.granularity,
                .dtype = dtype,
                .format = format,
                .scale_dtype = from.problem.scale_dtype,
                .zero_points = from.problem.zero_points};
  in.scales = std::move(from.scales);
  in.zero_points = std::move(from.zero_points);
  const auto count = static_cast<std::int64_t>(in.scales.size() / size_of(in.problem.scale_dtype));
  for (std::int64_t i = 0; i < count; ++i) {
    double s = read_element(in.scales.data(), in.problem.scale_dtype, i);
    if (random.below(4) == 0)
      s *= in.problem.scale_dtype == DType::f16 ? 0x1p-10 : random.below(2) == 0 ? 0x1p120 : 0x1p-120;
    write_element(in.scales.data(), in.problem.scale_dtype, i, s);
  }
  const Shape& shape = in.problem.shape;
  std::int64_t bytes = row_bytes(format, shape[shape.rank() - 1]);
  for (int i = 0; i + 1 < shape.rank(); ++i) bytes *= shape[i];
  for (std::int64_t i = 0; i < bytes; ++i) in.codes.push_back(static_cast<std::uint8_t>(random.below(256)));
  return in;
}

}  // namespace tern::lab
