// Launches the prefill kernels: prepares activations and the maps of the copy engine, and chooses the number of blocks.
// For .cu files only.
#pragma once

#include <algorithm>

#include "base/checked.h"
#include "ops/activation_quantize/activation_quantize.h"
#include "ops/cuda_start.h"
#include "ops/linear/cuda_wgmma_tuning.h"

namespace tern::activation_quantize {
extern const Cuda cuda_sm75;
}

namespace tern::linear {
namespace {

// --- activations ---

// Workspace of int8 activations that the copy engine can read: rows of a multiple of 16 bytes. For float activations,
// scales and sums follow.
struct WgmmaWorkspace {
  std::int64_t stride;  // of int8 rows
  std::size_t scales, sums, bytes;
};
inline WgmmaWorkspace wgmma_workspace(std::int64_t m, std::int64_t k, DType x_dtype) {
  WgmmaWorkspace w = {};
  w.stride = static_cast<std::int64_t>(round_up(static_cast<std::size_t>(k), 16));
  const std::size_t each = round_up(static_cast<std::size_t>(m) * sizeof(float), 256);
  w.scales = round_up(static_cast<std::size_t>(m * w.stride), 256);
  w.sums = w.scales + (x_dtype == DType::i8 ? 0 : each);
  w.bytes = w.sums + (x_dtype == DType::i8 ? 0 : each);
  return w;
}
// int8 activations need it only where they are not aligned, which is not known before the run.
inline std::size_t wgmma_workspace_bytes(const Linear::Problem& problem) {
  return wgmma_workspace(problem.m_max, problem.k, problem.x_dtype).bytes;
}

// Copies rows of bytes to aligned rows; a thread copies four neighbouring bytes.
__global__ void __launch_bounds__(256) align_rows(const std::int8_t* x, std::int64_t x_stride, unsigned* to,
                                                  std::int64_t to_stride_words, std::int64_t m, std::int64_t k) {
  const std::int64_t words = (k + 3) / 4, i = static_cast<std::int64_t>(blockIdx.x) * 256 + threadIdx.x;
  const std::int64_t row = i / words, at = i % words;
  if (row >= m) return;
  unsigned word = 0;
#pragma unroll
  for (int b = 0; b < 4; ++b)
    if (4 * at + b < k)
      word |= static_cast<unsigned>(static_cast<std::uint8_t>(x[row * x_stride + 4 * at + b])) << (8 * b);
  to[row * to_stride_words + at] = word;
}

// --- maps of the copy engine ---

using EncodeMap = decltype(&cuTensorMapEncodeTiled);
inline EncodeMap map_encoder() {
  static const EncodeMap encode = []() -> EncodeMap {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = {};
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result) !=
            cudaSuccess ||
        result != cudaDriverEntryPointSuccess)
      return nullptr;
    return reinterpret_cast<EncodeMap>(found);
  }();
  return encode;
}

constexpr std::int64_t kMapStrideLimit = std::int64_t{1} << 40;

// A tensor of rows, and the box that one load or store moves.
struct MapJob {
  CUtensorMapDataType type;
  CUtensorMapSwizzle swizzle;
  const void* data;
  std::int64_t columns, rows;
  std::int64_t stride_bytes;  // a multiple of 16
  int box_columns, box_rows;
};
inline bool encode_map(CUtensorMap& map, const MapJob& job) {
  const EncodeMap encode = map_encoder();
  if (encode == nullptr) return false;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(job.columns), static_cast<cuuint64_t>(job.rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(job.stride_bytes)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(job.box_columns), static_cast<cuuint32_t>(job.box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  return encode(&map, job.type, 2, const_cast<void*>(job.data), sizes, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, job.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}
inline bool map_aligned(const void* data, std::int64_t stride_bytes, std::int64_t rows) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 &&
         (rows == 1 || (stride_bytes % 16 == 0 && stride_bytes < kMapStrideLimit));
}
// With one row the stride is not used, but it is checked.
inline std::int64_t map_stride(std::int64_t stride_bytes, std::int64_t rows) {
  return rows == 1 ? static_cast<std::int64_t>(round_up(static_cast<std::size_t>(stride_bytes), 16)) : stride_bytes;
}

// --- launches ---

inline bool encode_x(CUtensorMap& map, const Job& job, const std::int8_t* x, std::int64_t x_stride, int tokens) {
  return encode_map(map, {.type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
                          .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
                          .data = x,
                          .columns = job.k,
                          .rows = job.m,
                          .stride_bytes = map_stride(x_stride, job.m),
                          .box_columns = TileMma::kColumns,
                          .box_rows = tokens});
}
// A row of the map is a row of tiles.
template <class W>
bool encode_weights(CUtensorMap& map, const Job& job, const MatrixJob& matrix, int rows) {
  constexpr bool kWords = kMapElementBytes<W> == 4;
  return encode_map(map, {.type = kWords ? CU_TENSOR_MAP_DATA_TYPE_UINT32 : CU_TENSOR_MAP_DATA_TYPE_UINT64,
                          .swizzle = CU_TENSOR_MAP_SWIZZLE_NONE,
                          .data = matrix.tiles,
                          .columns = std::int64_t{job.column_tiles} * kMapColumns<W>,
                          .rows = ceil_div(matrix.n, TileMma::kRows),
                          .stride_bytes = std::int64_t{job.column_tiles} * W::kTileBytes,
                          .box_columns = kMapColumns<W>,
                          .box_rows = rows / static_cast<int>(TileMma::kRows)});
}
template <class W>
bool encode_maps(WgmmaJob& job, const WgmmaTuning& tuning, const std::int8_t* x, std::int64_t x_stride) {
  const WgmmaShapeInfo& shape = kWgmmaShapes[tuning.shape];
  if (!encode_x(job.x, job.job, x, x_stride, shape.width) || !encode_x(job.x_tail, job.job, x, x_stride, shape.tail))
    return false;
  for (int i = 0; i < job.job.count; ++i) {
    const MatrixJob& matrix = job.job.matrices[i];
    if (!encode_weights<W>(job.weights[i], job.job, matrix, shape.rows)) return false;
    const bool has_residual = matrix.residual != nullptr;
    // The copy engine stores whole pieces of 16 bytes: if a row ended within one, the store would go beyond its end.
    job.fast[i] = (matrix.y_dtype == DType::bf16 || matrix.y_dtype == DType::f16) && job.x_scales != nullptr &&
                  matrix.n % 8 == 0 && map_aligned(matrix.y, matrix.y_stride * 2, job.job.m) &&
                  (!has_residual || map_aligned(matrix.residual, matrix.residual_stride * 2, job.job.m));
    if (!job.fast[i]) continue;
    MapJob of_y = {.type = CU_TENSOR_MAP_DATA_TYPE_UINT16,
                   .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
                   .data = matrix.y,
                   .columns = matrix.n,
                   .rows = job.job.m,
                   .stride_bytes = map_stride(matrix.y_stride * 2, job.job.m),
                   .box_columns = kGroupRows,
                   .box_rows = kBoxTokens};
    if (!encode_map(job.y[i], of_y)) return false;
    if (!has_residual) continue;
    of_y.data = matrix.residual;
    of_y.stride_bytes = map_stride(matrix.residual_stride * 2, job.job.m);
    if (!encode_map(job.residual[i], of_y)) return false;
  }
  return true;
}

// Fills in the parameters of the kernel; the copy engine must be able to read x.
template <class W>
bool wgmma_job(WgmmaJob& job, const Params& p, const std::int8_t* x, std::int64_t x_stride, const float* x_scales,
               const WgmmaTuning& tuning, const cuda::Launch& launch) {
  std::int64_t n[Linear::kMaxMatrices];
  for (std::size_t i = 0; i < p.count; ++i) n[i] = p.matrices[i].spec.n;
  job.job = job_of(p);
  job.x_scales = x_scales;
  job.report = cuda::report_of(launch);
  job.tiles = wgmma_tiles(n, p.count, p.m, p.k, tuning, launch.multiprocessors);
  return encode_maps<W>(job, tuning, x, x_stride);
}

template <class S>
int wgmma_launch_as(WgmmaJob job, const WgmmaTuning& tuning, const cuda::Launch& launch) {
  // The first warpgroup must not reach the barrier a second time before the second has reached it once. It is ahead by
  // at most a ring of stages, and a tile has at least as many steps.
  job.lead = job.job.column_tiles >= S::kStages ? std::clamp(tuning.lead, 0, S::kStages - 2) : 0;
  auto* const kernel = wgmma_kernel<S>;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes);
  if (error != cudaSuccess) return error;
  return cuda::start(kernel,
                     {.blocks = dim3(static_cast<unsigned>(std::min(job.tiles.items, launch.multiprocessors))),
                      .threads = dim3(kWgmmaThreads),
                      .shared_bytes = S::kSharedBytes,
                      .dependent = tuning.dependent},
                     launch, job);
}

// --- launches of the kernel whose blocks share tiles ---

template <class W>
bool split_job(SplitJob& job, const Params& p, const std::int8_t* x, std::int64_t x_stride, const float* x_scales,
               const WgmmaTuning& tuning, const cuda::Launch& launch) {
  job.job = job_of(p);
  job.x_scales = x_scales;
  job.report = cuda::report_of(launch);
  // Each block of a cluster has at least one step.
  while (2 << job.log_split <= std::min(tuning.split, job.job.column_tiles)) ++job.log_split;
  if (!encode_x(job.x, job.job, x, x_stride, kSplitShapes[tuning.shape].width)) return false;
  int blocks = 0;
  for (int i = 0; i < job.job.count; ++i) {
    const MatrixJob& matrix = job.job.matrices[i];
    job.first_block[i] = blocks;
    blocks += static_cast<int>(ceil_div(matrix.n, kSplitRows));
    if (!encode_weights<W>(job.weights[i], job.job, matrix, kSplitRows)) return false;
    const int bytes = matrix.y_dtype == DType::bf16 || matrix.y_dtype == DType::f16 ? 8 : 16;  // of four elements
    const auto aligned = [bytes](const void* data, std::int64_t stride) {
      return reinterpret_cast<std::uintptr_t>(data) % bytes == 0 && stride % 4 == 0;
    };
    job.quads[i] = aligned(matrix.y, matrix.y_stride) &&
                   (matrix.residual == nullptr || aligned(matrix.residual, matrix.residual_stride));
  }
  job.row_blocks = blocks;
  return true;
}

template <class S>
int split_launch_as(const SplitJob& job, const WgmmaTuning& tuning, const cuda::Launch& launch) {
  auto* const kernel = wgmma_split_kernel<S>;
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes);
  if (error == cudaSuccess)  // so that two blocks fit
    error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  if (error != cudaSuccess) return error;
  return cuda::start(kernel,
                     {.blocks = dim3(static_cast<unsigned>(job.row_blocks) << job.log_split,
                                     static_cast<unsigned>(ceil_div(job.job.m, S::kWidth))),
                      .threads = dim3(kSplitThreads),
                      .shared_bytes = S::kSharedBytes,
                      .cluster = 1U << job.log_split,
                      .dependent = tuning.dependent},
                     launch, job);
}

// Quantizes float activations to token_i8 in the workspace first; copies int8 activations there if they are not
// aligned. Returns a cudaError_t.
template <class W>
int wgmma_launch(const Params& p, std::byte* workspace, const cuda::Launch& launch, const WgmmaTuning& tuning) {
  const WgmmaWorkspace places = wgmma_workspace(p.m, p.k, p.x_dtype);
  const bool in_place = p.x_dtype == DType::i8 && map_aligned(p.x, p.x_stride, p.m);
  auto* const staged = reinterpret_cast<std::int8_t*>(workspace);
  auto* const staged_scales = reinterpret_cast<float*>(workspace + places.scales);
  const auto* x = static_cast<const std::int8_t*>(p.x);
  if (p.x_dtype != DType::i8) {
    cuda::Launch quantizing = launch;
    quantizing.dependent = tuning.dependent;
    const int error = activation_quantize::cuda_sm75.launch(
        {.problem = {.m = p.m, .k = p.k, .dtype = p.x_dtype, .non_finite = p.non_finite},
         .x = p.x,
         .x_stride = p.x_stride,
         .q = staged,
         .q_stride = places.stride,
         .scales = staged_scales,
         .sums = reinterpret_cast<std::int32_t*>(workspace + places.sums)},
        nullptr, quantizing);
    if (error != cudaSuccess) return error;
  } else if (!in_place) {
    const std::int64_t threads = p.m * ceil_div(p.k, 4);
    align_rows<<<static_cast<unsigned>(ceil_div(threads, 256)), 256, 0, static_cast<cudaStream_t>(launch.stream)>>>(
        x, p.x_stride, reinterpret_cast<unsigned*>(workspace), places.stride / 4, p.m, p.k);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  }
  const std::int64_t x_stride = in_place ? p.x_stride : places.stride;
  const float* const x_scales = p.x_dtype == DType::i8 ? p.x_scales : staged_scales;
  if (!in_place) x = staged;
  if (tuning.split > 0) {
    SplitJob job = {};
    if (!split_job<W>(job, p, x, x_stride, x_scales, tuning, launch)) return cudaErrorNotSupported;
    return with_split_shape<W>(tuning.shape, [&]<class S>() { return split_launch_as<S>(job, tuning, launch); });
  }
  WgmmaJob job = {};
  if (!wgmma_job<W>(job, p, x, x_stride, x_scales, tuning, launch)) return cudaErrorNotSupported;
  return with_wgmma_shape<W>(tuning.shape, [&]<class S>() { return wgmma_launch_as<S>(job, tuning, launch); });
}

}  // namespace
}  // namespace tern::linear
