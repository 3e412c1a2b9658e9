// Launching the prefill kernel: which tiles, in what order, on how many blocks, and the maps of the copy engine. For
// .cu files only.
#pragma once

#include <algorithm>

#include "base/checked.h"
#include "ops/activation_quantize/activation_quantize.h"
#include "ops/linear/cuda_wgmma.h"

namespace tern::activation_quantize {
extern const Cuda cuda_sm75;
}

namespace tern::linear {
namespace {

// --- which kernel ---

struct WgmmaShapeInfo {
  int rows, width, tail;
};
// As with_wgmma_shape() instantiates them.
constexpr WgmmaShapeInfo kWgmmaShapes[] = {{256, 128, 64}, {256, 96, 48}, {256, 80, 80}, {128, 256, 128},
                                           {128, 128, 64}, {128, 64, 32}, {128, 32, 16}};
constexpr int kWgmmaShapeCount = sizeof(kWgmmaShapes) / sizeof(kWgmmaShapes[0]);

template <class F>
int with_wgmma_shape(int shape, F f) {
  switch (shape) {
    case 1: return f.template operator()<WgmmaShape<2, 96, 48>>();
    case 2: return f.template operator()<WgmmaShape<2, 80, 80>>();
    case 3: return f.template operator()<WgmmaShape<1, 256, 128>>();
    case 4: return f.template operator()<WgmmaShape<1, 128, 64>>();
    case 5: return f.template operator()<WgmmaShape<1, 64, 32>>();
    case 6: return f.template operator()<WgmmaShape<1, 32, 16>>();
    default: return f.template operator()<WgmmaShape<2, 128, 64>>();
  }
}

struct WgmmaTuning {
  int shape = 0;
  int cluster = 1;        // 1 or 2 blocks share x
  int lead = 4;           // steps by which the second warpgroup follows the first; 0: it does not
  int group = 16;         // token blocks that take the rows together
  bool tails = true;      // the last wave in narrower tiles, where that is shorter
  bool dependent = true;  // starts while the kernel before runs out
};

// What a tile costs, in clocks of an H200; only ratios matter. A product takes 1 clock for 4096 multiplications; a
// multiprocessor gets about 26 bytes a clock from the L2 cache when all read; a step has some latency of its own.
constexpr double wgmma_step_clocks(int rows, int width, int cluster) {
  const double products = rows * width / 32.0 / 0.92, bytes = (width * 128.0 / cluster + rows * 32.0) / 26.0;
  return std::max({products, bytes, 220.0});
}
constexpr double wgmma_tile_clocks(int rows, int width, int cluster, std::int64_t steps) {
  return static_cast<double>(steps) * wgmma_step_clocks(rows, width, cluster) + 700.0;
}

// The tiles of matrices of n[] rows for that tuning.
inline WgmmaTiles wgmma_tiles(const std::int64_t* n, std::size_t count, std::int64_t m, std::int64_t k,
                              const WgmmaTuning& tuning, int multiprocessors) {
  const WgmmaShapeInfo& shape = kWgmmaShapes[tuning.shape];
  WgmmaTiles tiles = {};
  tiles.matrices = static_cast<int>(count);
  tiles.rows = shape.rows * tuning.cluster;
  for (std::size_t i = 0; i < count; ++i) {
    tiles.first_block[i] = tiles.row_blocks;
    tiles.row_blocks += static_cast<int>(ceil_div(n[i], tiles.rows));
  }
  tiles.width = shape.width;
  tiles.tail = shape.tail;
  tiles.cuts = shape.width / shape.tail;
  tiles.token_blocks = static_cast<int>(ceil_div(m, shape.width));
  tiles.group = std::clamp(tuning.group, 1, tiles.token_blocks);
  const int all = tiles.row_blocks * tiles.token_blocks, workers = std::max(1, multiprocessors / tuning.cluster);
  tiles.whole = all;
  if (tuning.tails && tiles.cuts > 1) {
    const int left = all % workers;
    const auto clocks = [&](int width) {
      return wgmma_tile_clocks(shape.rows, width, tuning.cluster, ceil_div(k, TileMma::kColumns));
    };
    if (left > 0 &&
        static_cast<double>(ceil_div(left * tiles.cuts, workers)) * clocks(shape.tail) < clocks(shape.width))
      tiles.whole = all - left;
  }
  tiles.items = tiles.whole + (all - tiles.whole) * tiles.cuts;
  return tiles;
}

// All of it: whole waves, the last one, and the epilogue that nothing hides.
inline double wgmma_clocks(const WgmmaTiles& tiles, const WgmmaTuning& tuning, std::int64_t k, int multiprocessors) {
  const WgmmaShapeInfo& shape = kWgmmaShapes[tuning.shape];
  const std::int64_t workers = std::max(1, multiprocessors / tuning.cluster), steps = ceil_div(k, TileMma::kColumns);
  const bool cut = tiles.whole != tiles.items;
  return static_cast<double>(ceil_div(tiles.whole, workers)) *
             wgmma_tile_clocks(shape.rows, shape.width, tuning.cluster, steps) +
         static_cast<double>(ceil_div(tiles.items - tiles.whole, workers)) *
             wgmma_tile_clocks(shape.rows, shape.tail, tuning.cluster, steps) +
         shape.rows * (cut ? shape.tail : shape.width) * 0.06;
}

// The kernel that should be the fastest.
inline WgmmaTuning wgmma_tuning(const std::int64_t* n, std::size_t count, std::int64_t m, std::int64_t k,
                                int multiprocessors) {
  WgmmaTuning best;
  double least = 0;
  for (int shape = 0; shape < kWgmmaShapeCount; ++shape) {
    WgmmaTuning tuning;
    tuning.shape = shape;
    const double clocks =
        wgmma_clocks(wgmma_tiles(n, count, m, k, tuning, multiprocessors), tuning, k, multiprocessors);
    if (shape == 0 || clocks < least) {
      least = clocks;
      best = tuning;
    }
  }
  return best;
}
inline WgmmaTuning wgmma_tuning(const Params& p, int multiprocessors) {
  std::int64_t n[Linear::kMaxMatrices];
  for (std::size_t i = 0; i < p.count; ++i) n[i] = p.matrices[i].spec.n;
  return wgmma_tuning(n, p.count, p.m, p.k, multiprocessors);
}

// --- activations ---

// Where int8 activations lie that the copy engine can read: rows of a multiple of 16 bytes, and behind them, for float
// activations, scales and sums.
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

// Rows of bytes to rows that are aligned; a thread takes four neighbours.
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
// Of one row no stride is used, but it is checked.
inline std::int64_t map_stride(std::int64_t stride_bytes, std::int64_t rows) {
  return rows == 1 ? static_cast<std::int64_t>(round_up(static_cast<std::size_t>(stride_bytes), 16)) : stride_bytes;
}

// --- launches ---

inline bool encode_maps(WgmmaJob& job, const WgmmaTuning& tuning, const std::int8_t* x, std::int64_t x_stride) {
  const WgmmaShapeInfo& shape = kWgmmaShapes[tuning.shape];
  MapJob of_x = {.type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
                 .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
                 .data = x,
                 .columns = job.job.k,
                 .rows = job.job.m,
                 .stride_bytes = map_stride(x_stride, job.job.m),
                 .box_columns = TileMma::kColumns,
                 .box_rows = shape.width / tuning.cluster};
  if (!encode_map(job.x, of_x)) return false;
  of_x.box_rows = shape.tail / tuning.cluster;
  if (!encode_map(job.x_tail, of_x)) return false;
  for (int i = 0; i < job.job.count; ++i) {
    const MatrixJob& matrix = job.job.matrices[i];
    // A row of tiles is one row of 4-byte words.
    if (!encode_map(job.weights[i], {.type = CU_TENSOR_MAP_DATA_TYPE_UINT32,
                                     .swizzle = CU_TENSOR_MAP_SWIZZLE_NONE,
                                     .data = matrix.tiles,
                                     .columns = job.job.column_tiles * (TileMma::kBytes / 4),
                                     .rows = ceil_div(matrix.n, TileMma::kRows),
                                     .stride_bytes = job.job.column_tiles * TileMma::kBytes,
                                     .box_columns = TileMma::kBytes / 4,
                                     .box_rows = shape.rows / static_cast<int>(TileMma::kRows)}))
      return false;
    const bool has_residual = matrix.residual != nullptr;
    // The copy engine stores whole pieces of 16 bytes: a row that ends within one would write behind its end.
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

// What the kernel gets, for int8 activations that the copy engine can read.
inline bool wgmma_job(WgmmaJob& job, const Params& p, const std::int8_t* x, std::int64_t x_stride,
                      const float* x_scales, const WgmmaTuning& tuning, const cuda::Launch& launch) {
  std::int64_t n[Linear::kMaxMatrices];
  for (std::size_t i = 0; i < p.count; ++i) n[i] = p.matrices[i].spec.n;
  job.job = job_of(p);
  job.x_scales = x_scales;
  job.report = cuda::report_of(launch);
  job.cluster = tuning.cluster;
  job.tiles = wgmma_tiles(n, p.count, p.m, p.k, tuning, launch.multiprocessors);
  return encode_maps(job, tuning, x, x_stride);
}

template <class S>
int wgmma_launch_as(WgmmaJob job, const WgmmaTuning& tuning, const cuda::Launch& launch) {
  // The first warpgroup must not come round to the barrier twice before the second has: a ring of stages lies between
  // them, and a tile has at least as many steps.
  job.lead = job.job.column_tiles >= S::kStages ? std::clamp(tuning.lead, 0, S::kStages - 2) : 0;
  auto* const kernel = wgmma_kernel<S>;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes);
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (tuning.dependent) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (tuning.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned>(tuning.cluster), 1, 1};
  }
  cudaLaunchConfig_t config = {};
  const int workers = std::max(1, launch.multiprocessors / tuning.cluster);
  config.gridDim = static_cast<unsigned>(std::min(job.tiles.items, workers) * tuning.cluster);
  config.blockDim = kWgmmaThreads;
  config.dynamicSmemBytes = S::kSharedBytes;
  config.stream = static_cast<cudaStream_t>(launch.stream);
  config.attrs = attributes;
  config.numAttrs = count;
  return cudaLaunchKernelEx(&config, kernel, job);
}

// Float activations become token_i8 in the workspace first, int8 ones are copied there where they are not aligned.
// Returns a cudaError_t.
inline int wgmma_launch(const Params& p, std::byte* workspace, const cuda::Launch& launch, const WgmmaTuning& tuning) {
  const WgmmaWorkspace places = wgmma_workspace(p.m, p.k, p.x_dtype);
  const bool as_it_is = p.x_dtype == DType::i8 && map_aligned(p.x, p.x_stride, p.m);
  auto* const own = reinterpret_cast<std::int8_t*>(workspace);
  auto* const own_scales = reinterpret_cast<float*>(workspace + places.scales);
  const auto* x = static_cast<const std::int8_t*>(p.x);
  if (p.x_dtype != DType::i8) {
    const int error = activation_quantize::cuda_sm75.launch(
        {.problem = {.m = p.m, .k = p.k, .dtype = p.x_dtype, .non_finite = p.non_finite},
         .x = p.x,
         .x_stride = p.x_stride,
         .q = own,
         .q_stride = places.stride,
         .scales = own_scales,
         .sums = reinterpret_cast<std::int32_t*>(workspace + places.sums)},
        nullptr, launch);
    if (error != cudaSuccess) return error;
  } else if (!as_it_is) {
    const std::int64_t threads = p.m * ceil_div(p.k, 4);
    align_rows<<<static_cast<unsigned>(ceil_div(threads, 256)), 256, 0, static_cast<cudaStream_t>(launch.stream)>>>(
        x, p.x_stride, reinterpret_cast<unsigned*>(workspace), places.stride / 4, p.m, p.k);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  }
  WgmmaJob job = {};
  if (!wgmma_job(job, p, as_it_is ? x : own, as_it_is ? p.x_stride : places.stride,
                 p.x_dtype == DType::i8 ? p.x_scales : own_scales, tuning, launch))
    return cudaErrorNotSupported;
  return with_wgmma_shape(tuning.shape, [&]<class S>() { return wgmma_launch_as<S>(job, tuning, launch); });
}

}  // namespace
}  // namespace tern::linear
