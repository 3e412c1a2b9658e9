// What the CUDA kernels of linear share: their matrices as plain data, and the epilogue. For .cu files only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/tile_mma.h"
#include "ops/cuda_words.h"
#include "ops/linear/linear.h"

namespace tern::linear {
namespace {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;

// One matrix of the problem.
struct MatrixJob {
  const uint4* tiles;   // TileMma
  const float* scales;  // TileMma::scale_at()
  std::byte* y;
  std::int64_t y_stride;  // elements
  const float* bias;      // null: none
  const std::byte* residual;
  std::int64_t residual_stride;
  std::int32_t n;
  std::int32_t first_tile;  // row tiles of the matrices before this one
  std::int32_t bits;        // of a weight
  DType y_dtype;
  bool one_scale;
  bool squared_relu;
};

// The matrices that share x. Their row tiles are numbered consecutively.
struct Job {
  std::int32_t count;
  std::int32_t row_tiles;  // of all matrices
  std::int32_t column_tiles;
  std::int32_t m;
  std::int32_t k;
  std::int64_t group;  // columns of a group of scales; 0: none
  MatrixJob matrices[Linear::kMaxMatrices];

  // The matrix of a row tile.
  [[nodiscard]] __device__ const MatrixJob& matrix_of(int tile) const {
    int i = 0;
    while (i + 1 < count && tile >= matrices[i + 1].first_tile) ++i;
    return matrices[i];
  }
};

// Weights are null where p has none, as when only the cut is of interest.
inline Job job_of(const Params& p) {
  Job job = {};
  job.count = static_cast<std::int32_t>(p.count);
  job.m = static_cast<std::int32_t>(p.m);
  job.k = static_cast<std::int32_t>(p.k);
  job.column_tiles = static_cast<std::int32_t>(ceil_div(p.k, TileMma::kColumns));
  for (std::size_t i = 0; i < p.count; ++i) {
    const Matrix& from = p.matrices[i];
    const Granularity& granularity = from.spec.granularity;
    const PackedWeights::State* const weights = from.weights;
    job.matrices[i] = {.tiles = weights == nullptr ? nullptr : reinterpret_cast<const uint4*>(weights->codes),
                       .scales = weights == nullptr ? nullptr : weights->scales,
                       .y = from.y,
                       .y_stride = from.y_stride,
                       .bias = from.bias,
                       .residual = from.residual,
                       .residual_stride = from.residual_stride,
                       .n = static_cast<std::int32_t>(from.spec.n),
                       .first_tile = job.row_tiles,
                       .bits = mma_bits(p.format),
                       .y_dtype = from.spec.y_dtype,
                       .one_scale = granularity.kind == Granularity::Kind::tensor,
                       .squared_relu = from.spec.activation == Activation::squared_relu};
    if (granularity.kind == Granularity::Kind::group) job.group = granularity.group_size;
    job.row_tiles += static_cast<std::int32_t>(ceil_div(from.spec.n, TileMma::kRows));
  }
  return job;
}

// --- launches ---

// The most shared memory that a block may have; 0 if unknown.
inline int shared_limit(const cuda::Launch& launch) {
  int limit = 0;
  if (cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, launch.device) != cudaSuccess) return 0;
  return limit;
}

// Whether a kernel may start before the previous one has ended, on GPUs from 9.0 on.
inline bool starts_early(const cuda::Launch& launch) {
  return launch.tuning == nullptr || launch.tuning->dependent_launch.value_or(true);
}

// --- weights ---

using Trits = MmaWeights<2>;

// A lane's part of a column tile of weights W.
template <class W>
struct LaneTile {
  static constexpr int kStride = W::kTileBytes / 16;  // from tile to tile
  uint4 loads[W::kLoads];

  // from: the lane's first 16 bytes.
  static __device__ LaneTile at(const uint4* from) {
    LaneTile tile;
#pragma unroll
    for (int v = 0; v < W::kLoads; ++v) tile.loads[v] = from[v * kWarp];
    return tile;
  }
  // The operand of a step; `step` is a constant where loops are unrolled.
  __device__ void operand(unsigned (&a)[4], int step) const {
    const uint4& words = loads[W::load_of(step)];
    a[0] = W::operand(words.x, step);
    a[1] = W::operand(words.y, step);
    a[2] = W::operand(words.z, step);
    a[3] = W::operand(words.w, step);
  }
};

// --- epilogue ---

// Quotients of sums by a token's scale, rounded as a division rounds them, by the CPU's method (epilogue.h).
struct Quotient {
  float s, reciprocal;
  bool corrects;
  __device__ explicit Quotient(float scale) : s(scale), corrects(scale >= 0x1p-60F && scale <= 0x1p60F) {
    reciprocal = __fdiv_rn(1.0F, scale);  // not in the initializers, which nvcc passes to the host's compiler
  }
  __device__ Quotient(float scale, float inverse)  // the reciprocal is known
      : s(scale), reciprocal(inverse), corrects(scale >= 0x1p-60F && scale <= 0x1p60F) {}
  [[nodiscard]] __device__ float of(int dot) const {
    const float t = __int2float_rn(dot);
    if (!corrects) return __fdiv_rn(t, s);
    float q = __fmul_rn(t, reciprocal);
    q = __fmaf_rn(__fmaf_rn(-q, s, t), reciprocal, q);
    return __fmaf_rn(__fmaf_rn(-q, s, t), reciprocal, q);
  }
};

// 1 / scale for Quotient, by the steps with which __frcp_rn() rounds it correctly; arbitrary for a scale that Quotient
// does not correct.
__device__ inline float quick_reciprocal(float scale) {
  float near;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(scale));
  return __fmaf_rn(__fmaf_rn(-near, scale, 1.0F), near, near);
}

// Reports a scale, given by the caller, that is not finite and above 0.
__device__ inline void check_scale(const cuda::Report& report, float s, std::int64_t token) {
  if (__float_as_uint(s) - 1U >= 0x7F7FFFFFU) report(cuda::kInvalidScale, token);
}

// What the epilogue needs of a row of weights.
struct RowTerms {
  float scale = 1.0F;
  float bias = 0.0F;
};
__device__ inline RowTerms row_terms(const MatrixJob& matrix, int n) {
  return {.scale = matrix.scales[matrix.one_scale ? 0 : n], .bias = matrix.bias != nullptr ? matrix.bias[n] : 0.0F};
}

// Scale, bias and activation for t = dot / s; store_y() adds the residual.
__device__ inline float activated(bool has_bias, bool squared_relu, const RowTerms& row, float t) {
  t = __fmul_rn(t, row.scale);
  if (has_bias) t = __fadd_rn(t, row.bias);
  if (squared_relu) {
    t = t < 0 ? 0.0F : t;
    t = __fmul_rn(t, t);
  }
  return t;
}
__device__ inline float activated(const MatrixJob& matrix, const RowTerms& row, float t) {
  return activated(matrix.bias != nullptr, matrix.squared_relu, row, t);
}

__device__ inline std::uint16_t to_bf16(float v) {  // NaN stays NaN
  return v != v ? std::uint16_t{0x7FFF} : cuda::Bf16::round(v);
}

// Bytes of an element of y, and of the residual, which has the same type.
__device__ inline std::int64_t y_bytes(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16 ? 2 : 4; }
__device__ inline std::byte* y_at(const MatrixJob& matrix, std::int64_t m, int n) {
  return matrix.y + (m * matrix.y_stride + n) * y_bytes(matrix.y_dtype);
}
__device__ inline const std::byte* residual_at(const MatrixJob& matrix, std::int64_t m, int n) {
  return matrix.residual + (m * matrix.residual_stride + n) * y_bytes(matrix.y_dtype);
}
__device__ inline float load_as(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::bf16: return cuda::Bf16::widen(*reinterpret_cast<const std::uint16_t*>(from));
    case DType::f16: return cuda::F16::widen(*reinterpret_cast<const std::uint16_t*>(from));
    default: return *reinterpret_cast<const float*>(from);
  }
}
__device__ inline void store_as(DType dtype, std::byte* to, float t) {
  switch (dtype) {
    case DType::bf16: *reinterpret_cast<std::uint16_t*>(to) = to_bf16(t); break;
    case DType::f16: *reinterpret_cast<std::uint16_t*>(to) = cuda::F16::round(t); break;
    default: *reinterpret_cast<float*>(to) = t;
  }
}

// The residual of y[m, n]; 0 where there is none.
__device__ inline float residual_of(const MatrixJob& matrix, std::int64_t m, int n) {
  return matrix.residual == nullptr ? 0.0F : load_as(matrix.y_dtype, residual_at(matrix, m, n));
}
// Stores y[m, n] = t + residual; the residual was read before.
__device__ inline void store_y(const MatrixJob& matrix, std::int64_t m, int n, float t, float residual) {
  if (matrix.residual != nullptr) t = __fadd_rn(t, residual);
  store_as(matrix.y_dtype, y_at(matrix, m, n), t);
}

// The same, and reads the residual.
__device__ inline void store_y(const MatrixJob& matrix, std::int64_t m, int n, float t) {
  store_y(matrix, m, n, t, residual_of(matrix, m, n));
}

// The whole epilogue for one sum.
__device__ inline void store_result(const MatrixJob& matrix, const RowTerms& row, const Quotient& quotient,
                                    std::int64_t m, int n, int dot) {
  if (matrix.y_dtype == DType::i32)
    reinterpret_cast<std::int32_t*>(matrix.y)[m * matrix.y_stride + n] = dot;
  else
    store_y(matrix, m, n, activated(matrix, row, quotient.of(dot)));
}

}  // namespace
}  // namespace tern::linear
