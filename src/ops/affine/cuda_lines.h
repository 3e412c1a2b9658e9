// How the CUDA kernels of the affine ops walk lines: a group of threads takes a tile of one line, each thread takes up
// to kVectors vectors of the tile, and looks up the scale and zero point of each. For .cu files only.
//
//    line   [ tile 0 .............................. ][ tile 1 ....
//            v0 v1 v2 ... v255   v256 ...                a vector: 16 bytes of floats
//            |  |         |      |
//     thread 0  1        255     0 ...                   a short line gets fewer threads, a power of two
#pragma once

#include "base/checked.h"
#include "ops/affine/affine.h"
#include "ops/affine/cuda_rounding.h"
#include "ops/affine/cuda_vectors.h"

namespace tern::affine {
namespace {

constexpr int kThreads = 256;  // per block
constexpr int kVectors = 4;    // per thread, all loaded before the first is used
constexpr std::int64_t kLargestTile = std::int64_t{kThreads} * kVectors * 8;

// The number of threads that walk a line of k elements together, a power of two.
template <class E>
int threads_of_line(std::int64_t k, int most) {
  int threads = 1;
  while (threads < most && std::int64_t{threads} * kVectors * kElems<E> < k) threads *= 2;
  return threads;
}

// The index, in the whole grid, of this thread's group of `width` threads. `width` is a power of two.
__device__ inline std::int64_t place_of_block(int width) {
  const int shift = __ffs(width) - 1;
  return static_cast<std::int64_t>(blockIdx.x) * (kThreads >> shift) + (static_cast<int>(threadIdx.x) >> shift);
}

// What a kernel gets: the lines and their scales and zero points.
struct Walk {
  Lines lines;
  int width = kThreads;             // threads per tile
  std::int64_t tiles = 0;           // per line
  std::int64_t all = 0;             // tiles of all lines
  cuda::Divisor by_tiles = {};      // if a line has several tiles: fewer than 2^31 tiles then, 2^43 elements
  cuda::Divisor by_group = {};      // set if a group is not longer than the largest tile
  std::int64_t groups_of_tile = 0;  // groups per tile if every tile begins with a group, else 0
  bool plain_scales = false;        // a line's first scale is at line * axis_step
  bool one_each = false;            // every vector lies in one range
  Access access[Lines::kMaxTensors];
  CodeAccess codes;

  const void* scales = nullptr;
  bool scales_f32 = true;  // else of the tensor's type
  const std::int32_t* zero_points = nullptr;
  CodeRange q = {};  // codes are clamped to q, and zero points must be in it
  int beyond = 0;    // results are clamped this many codes outside q; fake_quantize's mask needs 1
  bool reciprocal = false, saturate = false;
  cuda::Report report = {};

  [[nodiscard]] unsigned blocks() const { return static_cast<unsigned>(ceil_div(all, kThreads / width)); }
};

inline bool on_boundary(const void* p, std::int64_t bytes) { return reinterpret_cast<std::intptr_t>(p) % bytes == 0; }

// How a tensor's vectors are read along the lines. Runs of vectors begin `step_elems` elements apart.
template <class E>
Access access_of(const Lines& lines, std::size_t tensor, const void* data, std::int64_t step_elems = kElems<E>) {
  constexpr std::int64_t kSize = sizeof(typename E::Raw);
  const Lines::Strides& of = lines.tensors[tensor];
  bool whole = of.last == 1 && on_boundary(data, 16) && step_elems * kSize % 16 == 0;
  for (int i = 0; i < lines.leading; ++i) whole = whole && of.leading[static_cast<std::size_t>(i)] * kSize % 16 == 0;
  return {of.last, whole};
}
template <class E>
CodeAccess code_access_of(const Lines& lines, Format format, const void* codes, std::int64_t step_elems = kElems<E>) {
  const int bits = 8 / codes_per_byte(format);
  const std::int64_t bytes = kElems<E> * bits / 8;
  return {bits, on_boundary(codes, bytes) && (lines.count == 1 || lines.code_bytes % bytes == 0) &&
                    step_elems % kElems<E> == 0};
}

// `tensors` has the data of each tensor that the lines have strides for.
template <class E>
Walk make_walk(const Lines& lines, std::initializer_list<const void*> tensors, Format format, const void* codes,
               const cuda::Launch& launch) {
  Walk walk;
  walk.lines = lines;
  walk.width = threads_of_line<E>(lines.k, kThreads);
  const std::int64_t tile = std::int64_t{walk.width} * kVectors * kElems<E>;
  walk.tiles = ceil_div(lines.k, tile);
  walk.all = lines.count * walk.tiles;
  walk.by_tiles = cuda::Divisor(walk.tiles);
  if (lines.run == Lines::Run::groups && lines.group <= kLargestTile) walk.by_group = cuda::Divisor(lines.group);
  if (lines.run == Lines::Run::groups && tile % lines.group == 0) walk.groups_of_tile = tile / lines.group;
  walk.plain_scales = lines.below == 1 && lines.per_scale == 1 && (lines.axis == lines.count || lines.axis_step == 0);
  walk.one_each = lines.run == Lines::Run::one || (lines.run == Lines::Run::groups && lines.group % kElems<E> == 0);
  std::size_t at = 0;
  for (const void* data : tensors) walk.access[at] = access_of<E>(lines, at, data), ++at;
  walk.codes = code_access_of<E>(lines, format, codes);
  walk.report = cuda::report_of(launch);
  return walk;
}
inline void give_qparams(Walk& walk, const Qparams& qparams, CodeRange q) {
  walk.scales = qparams.scales;
  walk.scales_f32 = qparams.scale_dtype == DType::f32;
  walk.zero_points = qparams.zero_points;
  walk.q = q;
}

// Lines::scale_of() with cheaper divisions.
__device__ inline std::int64_t first_scale_of(const Walk& walk, std::int64_t line) {
  const Lines& lines = walk.lines;
  if (walk.plain_scales) return line * lines.axis_step;
  std::int64_t b = 0, a = 0;
  const std::int64_t outer = cuda::divide(cuda::divide(line, lines.below, b), lines.axis, a);
  return outer * lines.outer_step + a / lines.per_scale * lines.axis_step + b * lines.below_step;
}

// The tile that a thread works on. Columns are counted from the tile's first.
template <class E>
struct Tile {
  std::int64_t line, first_column, rest;  // rest: columns from the tile's first to the end of the line
  std::int64_t first_scale = 0, into_group = 0;
  int width, thread;

  __device__ explicit Tile(const Walk& walk) : width(walk.width) {
    thread = static_cast<int>(threadIdx.x) & (width - 1);
    std::int64_t tile = place_of_block(width);
    line = tile;
    if (walk.tiles > 1) {
      line = walk.by_tiles.quotient(static_cast<std::uint32_t>(tile));
      tile -= line * walk.tiles;
    } else {
      tile = 0;
    }
    first_column = tile * (width * kVectors * kElems<E>);
    rest = line < walk.lines.count ? walk.lines.k - first_column : 0;
    if (walk.scales == nullptr) return;
    first_scale = first_scale_of(walk, line);
    if (walk.lines.run == Lines::Run::each) first_scale += first_column;
    if (walk.lines.run != Lines::Run::groups || tile == 0) return;
    if (walk.groups_of_tile > 0)
      first_scale += tile * walk.groups_of_tile;
    else
      first_scale += cuda::divide(first_column, walk.lines.group, into_group);
  }
  // The first column of the thread's vector i.
  [[nodiscard]] __device__ int column(int i) const { return (i * width + thread) * kElems<E>; }
  [[nodiscard]] __device__ int count(int column) const {
    const std::int64_t left = rest - column;
    return left >= kElems<E> ? kElems<E> : left > 0 ? static_cast<int>(left) : 0;
  }
  [[nodiscard]] __device__ std::int64_t scale_of(const Walk& walk, int column) const {
    if (walk.lines.run == Lines::Run::one) return first_scale;
    if (walk.lines.run == Lines::Run::each) return first_scale + column;
    const std::int64_t at = into_group + column;
    if (walk.lines.group > kLargestTile) return first_scale + (at >= walk.lines.group ? 1 : 0);  // at most two groups
    return first_scale + walk.by_group.quotient(static_cast<std::uint32_t>(at));
  }
  // The row-major index of a column's element.
  [[nodiscard]] __device__ std::int64_t index(const Walk& walk, int column) const {
    return line * walk.lines.k + first_column + column;
  }
};
template <class E, class T>
__device__ T* line_of(const Walk& walk, const Tile<E>& tile, T* data, std::size_t tensor) {
  using Raw = std::conditional_t<std::is_const_v<T>, const typename E::Raw, typename E::Raw>;
  return static_cast<Raw*>(data) + walk.lines.offset_of(tile.line, tensor);
}

// A scale and a zero point, checked here and reported if invalid: the host cannot read values in GPU memory.
template <class E, class Math>
struct Qparam {
  Math scale;
  int zero = 0;

  __device__ Qparam(const Walk& walk, std::int64_t index) {
    scale = walk.scales_f32 ? static_cast<Math>(static_cast<const float*>(walk.scales)[index])
                            : static_cast<Math>(E::widen(static_cast<const typename E::Raw*>(walk.scales)[index]));
    if (!(scale > 0) || !cuda::finite(scale)) walk.report(cuda::kInvalidScale, index);
    if (walk.zero_points == nullptr) return;
    zero = walk.zero_points[index];
    if (zero < walk.q.min || zero > walk.q.max) walk.report(cuda::kInvalidZeroPoint, index);
  }
};

// The scale, zero point and rounding of elements that share a scale.
template <class E, class Math>
struct By {
  Qparam<E, Math> given;
  Rounding<Math> rounding;
  __device__ By(const Walk& walk, std::int64_t index)
      : given(walk, index),
        rounding(given.scale, walk.reciprocal, static_cast<Math>(walk.q.min - given.zero - walk.beyond),
                 static_cast<Math>(walk.q.max - given.zero + walk.beyond)) {
    if (!rounding.usable()) walk.report(cuda::kInvalidScale, index);
  }
};

// Calls f(j, sum, by) for each of a vector's n elements, with `one_each` for all kElems. `sum` is the rounded integer
// plus kWhole.
template <class E, class Math, class F>
__device__ void round_each(const Walk& walk, const Tile<E>& tile, int column, int n, const Vector<E>& v, F f) {
  if (walk.one_each) {
    const By<E, Math> by(walk, tile.scale_of(walk, column));
    Math x[kElems<E>], w[kElems<E>];
#pragma unroll
    for (int j = 0; j < kElems<E>; ++j) x[j] = static_cast<Math>(v.value(j));
    by.rounding.sums(x, w);
#pragma unroll
    for (int j = 0; j < kElems<E>; ++j) f(j, w[j], by);
    return;
  }
#pragma unroll
  for (int j = 0; j < kElems<E>; ++j) {
    if (j >= n) continue;
    const By<E, Math> by(walk, tile.scale_of(walk, column + j));
    f(j, by.rounding.sum(static_cast<Math>(v.value(j))), by);
  }
}

}  // namespace
}  // namespace tern::affine
