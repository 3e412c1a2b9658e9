// Launches the float modes of linear on tensor cores: which problems they take, how tokens are prepared, and which
// kernel runs. kSm is the GPU generation of a launcher: 75, 80 or 90. For .cu files only.
#pragma once

#include "memory/workspace.h"
#include "ops/activation_quantize/activation_quantize.h"
#include "ops/cuda_start.h"
#include "ops/linear/cuda_float_kernels.h"
#include "ops/linear/cuda_group_stream.h"
#include "ops/linear/cuda_serves.h"

namespace tern::activation_quantize {
extern const Cuda cuda_sm75;
}

namespace tern::linear {
namespace {

// The kernels' shapes: few tokens (8, 16, up to 32 in a block) or many (64, 128).
enum class FloatShape : std::uint8_t { few_8, few_16, few_32, many_64, many_128 };

// --- what is served ---

template <int kSm>
constexpr int flush_most(bool int8) {
  return float_modes::flush_most(kSm, int8);
}

template <int kSm>
bool float_serves(const Params& p) {
  const auto spec = [&p](std::size_t i) -> const Linear::Matrix& { return p.matrices[i].spec; };
  const float_modes::Call call{.math = p.math, .x_dtype = p.x_dtype, .m = p.m, .k = p.k};
  return float_modes::served(kSm, call, p.count, spec).refusal == float_modes::Refusal::none;
}

// --- preparing tokens ---

constexpr std::int64_t kCopiedTokens = 1024;  // at a time, where tensor cores cannot read x in place

constexpr std::int64_t padded(std::int64_t k) { return ceil_div(k, kTileColumns) * kTileColumns; }

struct FloatWorkspace {
  std::byte* x = nullptr;  // rows of padded(k)
  float* scales = nullptr;
  std::int32_t* sums = nullptr;
  int* tiny = nullptr;
  std::size_t bytes = 0;

  FloatWorkspace(std::byte* base, LinearMath math, DType x_dtype, std::int64_t m, std::int64_t k) {
    WorkspaceLedger ledger(base);
    const auto columns = static_cast<std::size_t>(padded(k)), all = static_cast<std::size_t>(m);
    const auto copied = static_cast<std::size_t>(m < kCopiedTokens ? m : kCopiedTokens);
    if (x_dtype == DType::i8) {
      x = ledger.book<std::byte>(copied * columns);
    } else if (math == LinearMath::w2a8) {
      x = ledger.book<std::byte>(all * columns);
      scales = ledger.book<float>(all);
      sums = ledger.book<std::int32_t>(all);
    } else if (x_dtype == DType::f32) {
      x = ledger.book<std::byte>(all * columns * 3 * 2);
      tiny = ledger.book<int>(all);
    } else {
      x = ledger.book<std::byte>(copied * columns * 2);
    }
    bytes = ledger.bytes();
  }
};

std::size_t float_workspace_bytes(const Linear::Problem& p) {
  return FloatWorkspace(nullptr, p.math, p.x_dtype, p.m_max, p.k).bytes;
}

constexpr int kCopyThreads = 512;

// Splits f32 tokens, one per block, into three bf16 stored as [3][m][columns], the smallest part first. Three times 8
// bits are the 24 bits of an f32, so the split is exact except for elements below 2^-109, whose last bits are below the
// smallest bf16; tiny[token] says whether a token has any.
__global__ void __launch_bounds__(kCopyThreads)
    split_tokens(const float* x, std::int64_t stride, int m, int k, int columns, std::uint16_t* to, int* tiny) {
  for (int token = blockIdx.x; token < m; token += gridDim.x) {
    bool any = false;
#pragma unroll 4
    for (int column = threadIdx.x; column < columns; column += kCopyThreads) {
      const float v = column < k ? x[token * stride + column] : 0.0F;
      any = any || (v != 0 && fabsf(v) < 0x1p-109F);
      const std::uint16_t high = to_bf16(v);
      const float rest = __fsub_rn(v, cuda::Bf16::widen(high));
      const std::uint16_t middle = to_bf16(rest);
      const std::uint16_t low = to_bf16(__fsub_rn(rest, cuda::Bf16::widen(middle)));
      std::uint16_t* at = to + static_cast<std::int64_t>(token) * columns + column;
      const std::int64_t part = static_cast<std::int64_t>(m) * columns;
      at[0] = low;
      at[part] = middle;
      at[2 * part] = high;
    }
    const int some = __syncthreads_or(static_cast<int>(any));
    if (threadIdx.x == 0) tiny[token] = some;
  }
}

// Copies tokens to aligned rows of `columns` elements, padded with zeros.
template <class Raw>
__global__ void __launch_bounds__(kCopyThreads)
    pad_tokens(const Raw* x, std::int64_t stride, int m, int k, int columns, Raw* to) {
  for (int token = blockIdx.x; token < m; token += gridDim.x)
#pragma unroll 4
    for (int column = threadIdx.x; column < columns; column += kCopyThreads)
      to[static_cast<std::int64_t>(token) * columns + column] = column < k ? x[token * stride + column] : Raw{0};
}

inline unsigned copy_blocks(std::int64_t m, const cuda::Launch& launch) {
  const std::int64_t most = std::int64_t{launch.multiprocessors} * 16;
  return static_cast<unsigned>(m < most ? m : most);
}

// --- launches ---

template <class Kernel>
int launch_kernel(Kernel kernel, std::int64_t blocks, int threads, std::size_t shared_bytes, const FloatJob& f,
                  const cuda::Launch& launch, bool early_start) {
  constexpr std::size_t kWithoutAsking = 48 * 1024;
  if (shared_bytes > kWithoutAsking) {
    const auto code =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    if (code != cudaSuccess) return code;
  }
  return cuda::start(kernel,
                     {.blocks = dim3(static_cast<unsigned>(blocks)),
                      .threads = dim3(static_cast<unsigned>(threads)),
                      .shared_bytes = static_cast<std::int64_t>(shared_bytes),
                      .dependent = early_start},
                     launch, f);
}

template <class Math, int kParts, class F, class Shape>
int launch_few(FloatJob f, const cuda::Launch& launch, bool early_start) {
  f.blocks_abreast = static_cast<std::int32_t>(ceil_div(f.job.m, Shape::kTokens));
  const std::int64_t blocks = ceil_div(f.job.row_tiles, Shape::kRowTiles) * f.blocks_abreast;
  return launch_kernel(multiply_few<Math, kParts, F, Shape>, blocks, f.units * kWarp, Shape::shared_bytes(f.units), f,
                       launch, early_start);
}

template <class Math, int kParts, class F, class Shape>
int launch_many(FloatJob f, const cuda::Launch& launch, bool early_start) {
  f.blocks_abreast = static_cast<std::int32_t>(ceil_div(f.job.row_tiles, Shape::kRows / kTileRows));
  const std::int64_t blocks = f.blocks_abreast * ceil_div(f.job.m, Shape::kTokens);
  return launch_kernel(multiply_many<Math, kParts, F, Shape>, blocks, Shape::kThreads,
                       Shape::template shared_bytes<Math>(), f, launch, early_start);
}

// Chooses the shape. Only frequent modes (`all`) are compiled for every shape; the others take the nearest one.
template <int kSm>
FloatShape shape_of(const FloatJob& f, bool all, const cuda::Launch& launch) {
  const auto served = [all](FloatShape shape) {
    if (shape == FloatShape::many_128) return kSm >= 90 && all ? shape : FloatShape::many_64;
    if (shape == FloatShape::few_16) return all ? shape : FloatShape::few_32;
    return shape;
  };
  const auto few_or = [&](FloatShape many) { return kSm >= 80 ? served(many) : FloatShape::few_32; };
  if (f.job.m <= 8) return FloatShape::few_8;
  if (f.job.m <= 16) return served(FloatShape::few_16);
  const std::int64_t row_blocks = ceil_div(f.job.row_tiles, 8);
  const std::int64_t blocks_64 = row_blocks * ceil_div(f.job.m, 64), blocks_128 = row_blocks * ceil_div(f.job.m, 128);
  if (f.job.m <= 32 || (f.job.m <= 64 && blocks_64 * 2 < launch.multiprocessors)) return FloatShape::few_32;
  const bool half = f.job.m <= 64 || blocks_128 * 2 < launch.multiprocessors;
  return few_or(half ? FloatShape::many_64 : FloatShape::many_128);
}

template <class Math, int kParts, class F, int kSm, bool kAll>
int launch_shape(const FloatJob& f, const cuda::Launch& launch) {
  const bool early = kSm >= 90 && starts_early(launch);
  // Limited by registers: column tiles being loaded, tiles of tokens, and blocks per multiprocessor.
  constexpr int kFewer = Math::W::kLoads == 4 ? 2 : 1;
  constexpr int kAtOnce = kParts > 1 ? 1 : (F::kFlushes > 2 ? 2 : 4) / kFewer;
  constexpr int kAtOnce16 = kSm >= 80 ? 2 : 1, kTokenTiles = kParts == 1 && kSm >= 80 ? 4 : 2;
  constexpr int kStages = kSm >= 90 ? 3 : 2;
  constexpr int kBlocks = F::kGroups || F::kFlushes > 1 ? 1 : 2;
  switch (shape_of<kSm>(f, kAll, launch)) {
    case FloatShape::few_8:
      // On an H200, warps that load tiles straight into registers reach 98 % of the memory bandwidth with s8 and groups
      // of whole tiles, but 66 to 85 % where a tile has fewer bytes or more groups, because that takes more
      // instructions per byte. Those cases stream through shared memory.
      if constexpr (kSm >= 90 && (Math::W::kLoads == 2 || (Math::W::kLoads == 4 && F::kFlushes > 1)))
        if (int code = 0; launch_group_stream<typename Math::W, F>(f, launch, early, code)) return code;
      return launch_few<Math, kParts, F, Few<1, 1, kAtOnce>>(f, launch, early);
    case FloatShape::few_16:
      if constexpr (kAll) return launch_few<Math, kParts, F, Few<1, 2, kAtOnce16>>(f, launch, early);
      break;
    case FloatShape::many_128:
      if constexpr (kAll && kSm >= 90) return launch_many<Math, kParts, F, Many<2, 8, 4, 2, 4, 1>>(f, launch, early);
      break;
    case FloatShape::many_64:
      if constexpr (kSm >= 80)
        return launch_many<Math, kParts, F, Many<2, 4, 4, 2, kStages, kBlocks>>(f, launch, early);
      break;
    default: break;
  }
  return launch_few<Math, kParts, F, Few<1, kTokenTiles, 1>>(f, launch, early);
}

template <class Math, int kParts, int kSm>
int launch_mode(const FloatJob& f, const cuda::Launch& launch) {
  constexpr bool kInt8 = Math::kElementBytes == 1;
  constexpr int kMost = flush_most<kSm>(kInt8);
  constexpr bool kAll = kParts == 1 && Math::W::kLoads == 1;
  if constexpr (!kInt8)
    if (f.group == 0) return launch_shape<Math, kParts, Fold<kMost, false>, kSm, kAll>(f, launch);
  if (flush_of(kMost, f.group, f.job.k) == kMost)
    return launch_shape<Math, kParts, Fold<kMost, true>, kSm, kAll>(f, launch);
  return launch_shape<Math, kParts, Fold<kStepColumns, true>, kSm, false>(f, launch);
}

// Weights wider than trits take int8 tokens only.
template <class W, int kSm>
int launch_tokens(const FloatJob& f, DType dtype, const cuda::Launch& launch) {
  if (dtype == DType::i8) return launch_mode<Int8Math<W>, 1, kSm>(f, launch);
  if constexpr (W::kLoads == 1) {
    if (dtype == DType::f16) return launch_mode<HalfMath<cuda::F16>, 1, kSm>(f, launch);
    if constexpr (kSm >= 80)
      return dtype == DType::bf16 ? launch_mode<HalfMath<cuda::Bf16>, 1, kSm>(f, launch)
                                  : launch_mode<HalfMath<cuda::Bf16>, 3, kSm>(f, launch);
  }
  return cudaErrorInvalidValue;
}

// The job for tokens [first, first + count). f.x stays, because x is copied to the same place for each window.
template <class Raw>
FloatJob window(FloatJob f, std::int64_t first, std::int64_t count) {
  f.job.m = static_cast<std::int32_t>(count);
  for (MatrixJob& matrix : f.job.matrices) {
    const std::int64_t bytes = matrix.y_dtype == DType::f32 ? 4 : 2;
    if (matrix.y != nullptr) matrix.y += first * matrix.y_stride * bytes;
    if (matrix.residual != nullptr) matrix.residual += first * matrix.residual_stride * bytes;
  }
  f.tokens.x = static_cast<const Raw*>(f.tokens.x) + first * f.tokens.stride;
  f.tokens.first = first;
  if (f.s != nullptr) f.s += first;
  return f;
}

// Reads x in place where it is aligned for tensor cores; otherwise copies it, kCopiedTokens at a time.
template <class W, int kSm, class Raw>
int launch_given(FloatJob f, const FloatWorkspace& workspace, const cuda::Launch& launch) {
  const auto at = reinterpret_cast<std::uintptr_t>(f.tokens.x);
  const std::int64_t stride_bytes = f.tokens.stride * static_cast<std::int64_t>(sizeof(Raw));
  if (at % 16 == 0 && (f.job.m == 1 || stride_bytes % 16 == 0) && f.job.k * sizeof(Raw) % 16 == 0) {
    f.x = static_cast<const std::byte*>(f.tokens.x);
    f.x_stride = stride_bytes;
    f.x_columns = f.job.k;
    return launch_tokens<W, kSm>(f, f.tokens.dtype, launch);
  }
  const auto columns = static_cast<std::int32_t>(padded(f.job.k));
  f.x = workspace.x;
  f.x_stride = columns * static_cast<std::int64_t>(sizeof(Raw));
  f.x_columns = columns;
  for (std::int64_t first = 0; first < f.job.m; first += kCopiedTokens) {
    const std::int64_t rest = f.job.m - first;
    const FloatJob piece = window<Raw>(f, first, rest < kCopiedTokens ? rest : kCopiedTokens);
    pad_tokens<Raw><<<copy_blocks(piece.job.m, launch), kCopyThreads, 0, static_cast<cudaStream_t>(launch.stream)>>>(
        static_cast<const Raw*>(piece.tokens.x), piece.tokens.stride, piece.job.m, piece.job.k, columns,
        reinterpret_cast<Raw*>(workspace.x));
    if (const int code = cudaGetLastError(); code != cudaSuccess) return code;
    if (const int code = launch_tokens<W, kSm>(piece, f.tokens.dtype, launch); code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

// The job without f.x, the tokens as tensor cores read them. All matrices have the same groups.
inline FloatJob float_job(const Params& p, const cuda::Launch& launch) {
  FloatJob f = {};
  f.job = job_of(p);
  f.group = group_of(p.matrices[0].spec.granularity);
  const bool one_group = f.group == 0 || f.group >= p.k;
  const std::int64_t group_steps = (one_group ? padded(p.k) : f.group) / kStepColumns;
  f.group_share = static_cast<std::uint32_t>(ceil_div(std::int64_t{1} << 31, group_steps));
  f.last_group = one_group ? 0 : static_cast<std::int32_t>(ceil_div(p.k, f.group) - 1);
  f.unit = static_cast<std::int32_t>(unit_of(f.job.column_tiles));
  f.units = static_cast<std::int32_t>(ceil_div(f.job.column_tiles, f.unit));
  f.s = p.math == LinearMath::w2a8 ? p.x_scales : nullptr;
  f.tokens = {.x = p.x,
              .stride = p.x_stride,
              .k = p.k,
              .first = 0,
              .dtype = p.x_dtype,
              .saturate = p.non_finite == NonFinite::saturate,
              .report = cuda::report_of(launch)};
  return f;
}

// Launches matrices [begin, end) of a problem, which have the same groups.
template <class W, int kSm>
int launch_matrices(const Params& all, std::size_t begin, std::size_t end, const FloatWorkspace& workspace,
                    const cuda::Launch& launch) {
  Params p = all;
  p.count = end - begin;
  for (std::size_t i = begin; i < end; ++i) p.matrices[i - begin] = all.matrices[i];
  FloatJob f = float_job(p, launch);
  if (f.job.row_tiles == 0) return cudaSuccess;
  const std::int64_t columns = padded(p.k);
  if (p.x_dtype == DType::i8) return launch_given<W, kSm, std::int8_t>(f, workspace, launch);
  if (p.math == LinearMath::w2_float && p.x_dtype != DType::f32)
    return launch_given<W, kSm, std::uint16_t>(f, workspace, launch);
  f.x = workspace.x;
  f.x_columns = static_cast<std::int32_t>(columns);
  if (p.math == LinearMath::w2a8) {
    f.x_stride = columns;
    f.s = workspace.scales;
    f.tokens.x = workspace.x;
    f.tokens.stride = columns;
    f.tokens.dtype = DType::i8;
  } else {
    f.x_stride = columns * 2;
    f.x_part = columns * 2 * p.m;
    f.tiny = workspace.tiny;
  }
  return launch_tokens<W, kSm>(f, f.tokens.dtype, launch);
}

// Quantizes float tokens to int8 (w2a8), or splits f32 tokens into three bf16.
inline int prepare(const Params& p, const FloatWorkspace& workspace, const cuda::Launch& launch) {
  const auto columns = static_cast<std::int32_t>(padded(p.k));
  if (p.math == LinearMath::w2a8 && p.x_dtype != DType::i8)
    return activation_quantize::cuda_sm75.launch(
        {.problem = {.m = p.m, .k = p.k, .dtype = p.x_dtype, .non_finite = p.non_finite},
         .x = p.x,
         .x_stride = p.x_stride,
         .q = reinterpret_cast<std::int8_t*>(workspace.x),
         .q_stride = columns,
         .scales = workspace.scales,
         .sums = workspace.sums},
        nullptr, launch);
  if (p.math == LinearMath::w2_float && p.x_dtype == DType::f32) {
    split_tokens<<<copy_blocks(p.m, launch), kCopyThreads, 0, static_cast<cudaStream_t>(launch.stream)>>>(
        static_cast<const float*>(p.x), p.x_stride, static_cast<int>(p.m), static_cast<int>(p.k), columns,
        reinterpret_cast<std::uint16_t*>(workspace.x), workspace.tiny);
    return cudaGetLastError();
  }
  return cudaSuccess;
}

// Takes what float_serves<kSm>() accepts. The workspace is float_workspace_bytes() of a problem with at least as many
// tokens.
template <class W, int kSm>
int float_launch(const Params& p, std::byte* workspace, const cuda::Launch& launch) {
  const FloatWorkspace parts(workspace, p.math, p.x_dtype, p.m, p.k);
  if (const int code = prepare(p, parts, launch); code != cudaSuccess) return code;
  for (std::size_t begin = 0, end = 0; begin < p.count; begin = end) {
    const std::int64_t group = group_of(p.matrices[begin].spec.granularity);
    for (end = begin; end < p.count && group_of(p.matrices[end].spec.granularity) == group;) ++end;
    const int code = launch_matrices<W, kSm>(p, begin, end, parts, launch);
    if (code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace tern::linear
