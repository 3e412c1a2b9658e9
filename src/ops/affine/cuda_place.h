// Where an element of an affine problem lies and which scale it has, by its indices, for the plain CUDA kernels: the
// definition of range_of() said again. For .cu files only.
#pragma once

#include "ops/affine/affine.h"
#include "ops/cuda_words.h"

namespace tern::affine {
namespace {

struct CudaPlaces {
  int rank;
  std::int64_t sizes[Shape::kMaxRank], strides[Shape::kMaxRank];
  AffineGranularity::Kind kind;
  int axis;
  std::int64_t group, rows, k;
  const void* scales;
  bool scales_f32;
  const std::int32_t* zero_points;
  CodeRange q;  // what a zero point may be
  cuda::Report report;
};

CudaPlaces make_places(const Words& words, const Qparams& qparams, CodeRange q, const Shape& strides,
                       const cuda::Launch& launch) {
  CudaPlaces places{.rank = words.shape.rank(),
                    .sizes = {},
                    .strides = {},
                    .kind = words.granularity.kind,
                    .axis = axis_of(words.shape, words.granularity),
                    .group = words.granularity.group_size,
                    .rows = rows_of(words.shape),
                    .k = last_of(words.shape),
                    .scales = qparams.scales,
                    .scales_f32 = qparams.scale_dtype == DType::f32,
                    .zero_points = qparams.zero_points,
                    .q = q,
                    .report = cuda::report_of(launch)};
  for (int i = 0; i < places.rank; ++i) {
    places.sizes[i] = words.shape[i];
    places.strides[i] = strides[i];
  }
  return places;
}

struct CudaPlace {
  std::int64_t offset = 0, range = 0;
  __device__ CudaPlace(const CudaPlaces& of, std::int64_t element) {
    using Kind = AffineGranularity::Kind;
    std::int64_t at[Shape::kMaxRank];
    std::int64_t rest = element;
    for (int i = of.rank - 1; i >= 0; --i) {
      at[i] = rest % of.sizes[i];
      rest /= of.sizes[i];
      offset += at[i] * of.strides[i];
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
};

}  // namespace
}  // namespace tern::affine
