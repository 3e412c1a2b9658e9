// choose_qparams for GPUs from sm_75 on. Ranges that fit in registers take one step. For others, many threads find the
// extremes together, then one thread computes scale and zero point.
#include <algorithm>

#include "memory/workspace.h"
#include "ops/affine/families.h"
#include "ops/choose_qparams/cuda_segments.h"

namespace tern::choose_qparams {

extern const Cuda cuda_simple;
extern const Cuda cuda_sm75;

namespace {

// The extremes of ranges so far, in global memory. They are at least +0, so their bits, as integers, have the same
// order and atomicMax applies.
template <class E>
struct Found {
  using Bits = std::conditional_t<sizeof(typename E::Math) == 8, unsigned long long, unsigned>;
  Bits* up;
  Bits* down;
  // Compares before the atomic: in a long range nearly every value is no larger than the extreme so far.
  __device__ void take(std::int64_t range, const Extremes<E>& extremes) const {
    if (bits(extremes.up) > __ldcg(up + range)) atomicMax(up + range, bits(extremes.up));
    if (bits(extremes.down) > __ldcg(down + range)) atomicMax(down + range, bits(extremes.down));
  }
  [[nodiscard]] __device__ Extremes<E> of(std::int64_t range) const { return {value(up[range]), value(down[range])}; }

 private:
  // Adding +0 turns -0 into +0.
  static __device__ unsigned bits(float v) { return __float_as_uint(v + 0.0F); }
  static __device__ unsigned long long bits(double v) {
    return static_cast<unsigned long long>(__double_as_longlong(v + 0.0));
  }
  static __device__ float value(unsigned v) { return __uint_as_float(v); }
  static __device__ double value(unsigned long long v) { return __longlong_as_double(static_cast<long long>(v)); }
};

// A group of `width` threads takes one tile of a segment; a range may have many tiles.
template <class E>
__global__ void __launch_bounds__(kThreads) measure_segments(const SegmentJob<E> job, const Found<E> found) {
  const int width = job.width, thread = static_cast<int>(threadIdx.x) & (width - 1);
  std::int64_t tile = 0;
  std::int64_t number = affine::place_of_block(width);
  if (job.tiles > 1) number = cuda::divide(number, job.tiles, tile);
  const Segment segment(job, number);
  const std::int64_t first = tile * (width * kVectors * kElems<E>);
  const auto* x = static_cast<const typename E::Raw*>(job.x);
  if (segment.n > 0) x += job.lines.offset_of(segment.line);
  affine::Vector<E> vectors[kVectors];
  const auto column = [&](int i) { return first + (i * width + thread) * kElems<E>; };
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const std::int64_t left = segment.n - column(i);
    vectors[i].read(x, job.access, segment.column + column(i),
                    left >= kElems<E> ? kElems<E>
                    : left > 0        ? static_cast<int>(left)
                                      : 0);
  }
  Extremes<E> extremes;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (!vectors[i].finite())
      vectors[i].mend(job.rule.report, job.saturate, segment.line * job.lines.k + segment.column + column(i));
    extremes.take(vectors[i], job.rule.zero_points);
  }
  if (width == kThreads)
    extremes.template fold_all<true>(width);
  else
    extremes.fold(width < 32 ? width : 32);
  if (segment.n > 0 && thread % (width == kThreads ? kThreads : 32) == 0)
    found.take(job.lines.scale_of(segment.line) + segment.in_line, extremes);
}

// Ranges that are columns of lines. A unit of work is 32 adjacent columns by up to 256 lines.
template <class E>
struct ColumnJob {
  affine::Families families;
  Lines lines;
  std::int64_t units, chunks, col_tiles;
  const void* x;
  bool saturate;
  CudaRule<E> rule;
  Found<E> found;
};
constexpr std::int64_t kChunkLines = 256;

template <class E>
__global__ void __launch_bounds__(kThreads) measure_columns(const ColumnJob<E> job) {
  using Math = typename E::Math;
  __shared__ Math up[8][32], down[8][32];
  const int c = static_cast<int>(threadIdx.x % 32), r = static_cast<int>(threadIdx.x / 32);
  for (std::int64_t unit = blockIdx.x; unit < job.units; unit += gridDim.x) {
    std::int64_t chunk = 0, col_tile = 0;
    const std::int64_t number = cuda::divide(cuda::divide(unit, job.chunks, chunk), job.col_tiles, col_tile);
    const affine::Family family = job.families[number];
    const std::int64_t column = col_tile * 32 + c, end = min(family.lines, (chunk + 1) * kChunkLines);
    Extremes<E> extremes;
    if (column < family.len)
#pragma unroll 4
      for (std::int64_t i = chunk * kChunkLines + r; i < end; i += 8) {
        const std::int64_t line = family.line(i);
        Math v = E::widen(
            static_cast<const typename E::Raw*>(job.x)[job.lines.offset_of(line) + column * job.lines.tensors[0].last]);
        if (!cuda::finite(v)) {
          if (!job.saturate) job.rule.report(cuda::kNonFinite, line * job.lines.k + column);
          v = cuda::saturated<E>(v);
        }
        extremes.take({v > 0 ? v : Math{0}, v < 0 ? -v : Math{0}});
      }
    up[r][c] = extremes.up, down[r][c] = extremes.down;
    __syncthreads();
    if (r == 0 && column < family.len) {
      for (int other = 1; other < 8; ++other) extremes.take({up[other][c], down[other][c]});
      job.found.take(family.range + column, extremes);
    }
    __syncthreads();
  }
}

template <class E>
__global__ void __launch_bounds__(kThreads)
    choose_found(const CudaRule<E> rule, const Found<E> found, std::int64_t ranges) {
  const std::int64_t range = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (range >= ranges) return;
  const Extremes<E> extremes = found.of(range);
  rule.store(range, rule.choose(extremes.up, extremes.down));
}

// ---- the choice ----

// Whether every range fits in registers whatever the strides: tokens, and groups along the last axis, are always
// segments.
bool always_held(const ChooseQparams::Problem& p) {
  const auto& g = p.granularity;
  const bool is_piece = g.kind == AffineGranularity::Kind::token ||
                        (g.kind == AffineGranularity::Kind::group && affine::axis_of(p.shape, g) == p.shape.rank() - 1);
  return is_piece && affine::longest_range(p.shape, p.granularity) <= (p.dtype == DType::f64   ? kMostHeld<cuda::F64>
                                                                       : p.dtype == DType::f32 ? kMostHeld<cuda::F32>
                                                                                               : kMostHeld<cuda::F16>);
}

std::size_t workspace_bytes(const ChooseQparams::Problem& p) {
  if (affine::is_empty(p.shape) || copies_ranges(p) || always_held(p)) return 0;
  const auto ranges = affine_scale_count(p.shape, p.granularity);
  const std::size_t size = p.dtype == DType::f64 ? 8 : 4;
  return ranges.ok() ? 2 * size * static_cast<std::size_t>(*ranges) : 0;
}

template <class E>
int launch_as(const Params& params, std::byte* workspace, const cuda::Launch& launch) {
  const Lines lines = affine::make_lines(affine::words_of(params.problem), params.x.strides,
                                         row_bytes(params.problem.format, affine::last_of(params.problem.shape)));
  auto* stream = static_cast<cudaStream_t>(launch.stream);
  auto job = make_segments<E>(params, lines, launch);
  if (are_held<E>(lines, params.count)) return launch_held<E, false>(job, stream);

  using Bits = typename Found<E>::Bits;
  auto* extremes = reinterpret_cast<Bits*>(workspace);
  const Found<E> found{extremes, extremes + params.count};
  const auto bytes = 2 * sizeof(Bits) * static_cast<std::size_t>(params.count);
  if (const auto error = cudaMemsetAsync(workspace, 0, bytes, stream); error != cudaSuccess) return error;
  if (lines.run == Lines::Run::each) {
    ColumnJob<E> columns{
        .families = affine::Families(lines),
        .lines = lines,
        .units = 0,
        .chunks = ceil_div(affine::longest_range(params.problem.shape, params.problem.granularity), kChunkLines),
        .col_tiles = ceil_div(lines.k, 32),
        .x = params.x.data,
        .saturate = job.saturate,
        .rule = job.rule,
        .found = found};
    columns.units = columns.families.count() * columns.col_tiles * columns.chunks;
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(columns.units, 0x7FFFFFFF));
    measure_columns<E><<<blocks, kThreads, 0, stream>>>(columns);
  } else {
    job.width = affine::threads_of_line<E>(job.len, kThreads);
    job.tiles = ceil_div(job.len, std::int64_t{job.width} * kVectors * kElems<E>);
    const std::int64_t blocks = ceil_div(job.segments * job.tiles, kThreads / job.width);
    measure_segments<E><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(job, found);
  }
  choose_found<E>
      <<<static_cast<unsigned>(ceil_div(params.count, kThreads)), kThreads, 0, stream>>>(job.rule, found, params.count);
  return cudaGetLastError();
}

int launch(const Params& params, std::byte* workspace, const cuda::Launch& launch) {
  if (copies_ranges(params.problem)) return cuda_simple.launch(params, workspace, launch);
  return cuda::with_element(params.problem.dtype,
                            [&]<class E>() -> int { return launch_as<E>(params, workspace, launch); });
}

}  // namespace

const Cuda cuda_sm75{workspace_bytes, launch};

}  // namespace tern::choose_qparams
