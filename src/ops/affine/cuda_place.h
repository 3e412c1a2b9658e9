// For the plain CUDA kernels: the offsets and the range of an element from its indices, as range_of() defines them, and
// the elements of a range. For .cu files only.
#pragma once

#include <initializer_list>

#include "ops/affine/affine.h"
#include "ops/cuda_words.h"

namespace tern::affine {
namespace {

constexpr int kPlainThreads = 256;
constexpr int kPlainBlocks = 64;  // per multiprocessor: enough to fill it several times

struct CudaPlaces {
  int rank;
  std::int64_t sizes[Shape::kMaxRank], strides[Lines::kMaxTensors][Shape::kMaxRank];
  AffineGranularity::Kind kind;
  int axis;
  std::int64_t group, rows, k;
  std::int64_t ranges;
  const void* scales;
  bool scales_f32;
  const std::int32_t* zero_points;
  CodeRange q;  // allowed zero points
  cuda::Report report;
};

CudaPlaces make_places(const Words& words, const Qparams& qparams, CodeRange q, std::initializer_list<Shape> strides,
                       const cuda::Launch& launch) {
  CudaPlaces places{.rank = words.shape.rank(),
                    .sizes = {},
                    .strides = {},
                    .kind = words.granularity.kind,
                    .axis = axis_of(words.shape, words.granularity),
                    .group = words.granularity.group_size,
                    .rows = rows_of(words.shape),
                    .k = last_of(words.shape),
                    .ranges = qparams.count,
                    .scales = qparams.scales,
                    .scales_f32 = qparams.scale_dtype == DType::f32,
                    .zero_points = qparams.zero_points,
                    .q = q,
                    .report = cuda::report_of(launch)};
  for (int i = 0; i < places.rank; ++i) {
    places.sizes[i] = words.shape[i];
    int tensor = 0;
    for (const Shape& of : strides) places.strides[tensor++][i] = of[i];
  }
  return places;
}

struct CudaPlace {
  std::int64_t offsets[Lines::kMaxTensors] = {};
  std::int64_t range = 0;
  __device__ CudaPlace(const CudaPlaces& of, std::int64_t element) {
    using Kind = AffineGranularity::Kind;
    std::int64_t at[Shape::kMaxRank];
    std::int64_t rest = element;
    for (int i = of.rank - 1; i >= 0; --i) {
      at[i] = rest % of.sizes[i];
      rest /= of.sizes[i];
      for (int t = 0; t < static_cast<int>(Lines::kMaxTensors); ++t) offsets[t] += at[i] * of.strides[t][i];
    }
    if (of.kind == Kind::channel) range = at[of.axis];
    if (of.kind == Kind::token) range = element / of.k;
    if (of.kind != Kind::group) return;
    for (int i = 0; i < of.rank; ++i) {
      const bool grouped = i == of.axis;
      range = range * (grouped ? (of.sizes[i] + of.group - 1) / of.group : of.sizes[i]) +
              (grouped ? at[i] / of.group : at[i]);
    }
  }
};

// A range: the number of its elements and the row-major index of each.
struct CudaRange {
  std::int64_t n, first, run, step;  // runs of `run` neighbours, which begin `step` apart
  __device__ CudaRange(const CudaPlaces& of, std::int64_t range) {
    using Kind = AffineGranularity::Kind;
    const std::int64_t elements = of.rows * of.k;
    n = run = step = elements, first = 0;
    if (of.kind == Kind::token) n = of.k, first = range * of.k;
    if (of.kind != Kind::channel && of.kind != Kind::group) return;
    std::int64_t below = 1;
    for (int i = of.axis + 1; i < of.rank; ++i) below *= of.sizes[i];
    const std::int64_t size = of.sizes[of.axis];
    if (of.kind == Kind::channel) {
      n = elements / size, first = range * below, run = below, step = size * below;
      return;
    }
    const std::int64_t groups = (size + of.group - 1) / of.group, at = range / below % groups * of.group;
    n = size - at < of.group ? size - at : of.group;
    first = (range / below / groups * size + at) * below + range % below;
    run = 1, step = below;
  }
  [[nodiscard]] __device__ std::int64_t element(std::int64_t i) const { return first + i / run * step + i % run; }
};

template <class E>
__device__ typename E::Math cuda_value(const void* x, std::int64_t offset, bool saturate) {
  const typename E::Math v = E::widen(static_cast<const typename E::Raw*>(x)[offset]);
  return saturate ? cuda::saturated<E>(v) : v;
}

// The scale and zero point of a range, and the quotient and code they give for x.
template <class E, class Math>
struct CudaQparam {
  Math scale;
  int zero;
  __device__ CudaQparam(const CudaPlaces& of, std::int64_t range) {
    scale = of.scales_f32 ? static_cast<Math>(static_cast<const float*>(of.scales)[range])
                          : static_cast<Math>(E::widen(static_cast<const typename E::Raw*>(of.scales)[range]));
    zero = of.zero_points == nullptr ? 0 : of.zero_points[range];
    if (!(scale > 0) || !cuda::finite(scale)) of.report(cuda::kInvalidScale, range);
    if (zero < of.q.min || zero > of.q.max) of.report(cuda::kInvalidZeroPoint, range);
  }
  __device__ Math quotient(const CudaPlaces& of, std::int64_t range, bool reciprocal, typename E::Math x) const {
    const Math inverse = 1 / scale;
    if (reciprocal && !cuda::finite(inverse)) of.report(cuda::kInvalidScale, range);
    return reciprocal ? static_cast<Math>(x) * inverse : static_cast<Math>(x) / scale;
  }
  // rne(x/s), clamped.
  __device__ int clamped(const CudaPlaces& of, Math rounded) const {
    const Math low = static_cast<Math>(of.q.min - zero), high = static_cast<Math>(of.q.max - zero);
    return static_cast<int>(rounded < low ? low : rounded > high ? high : rounded);
  }
};

}  // namespace
}  // namespace tern::affine
