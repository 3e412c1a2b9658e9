// For GPUs, ranges that are contiguous segments of a line: threads read a segment once into registers, choose its scale
// and zero point, and quantize it from the registers. For .cu files only.
//
//    line   [ segment 0 ][ segment 1 ] ...       a group, or the whole line
//            v0 v1 ... v7  v0 ...                vectors of 16 bytes: a thread has up to four, a segment up to 1,024
//     thread 0  1      7   8 ...                 threads, a power of two: some of a warp, or a whole block
#pragma once

#include "ops/affine/cuda_flat.h"
#include "ops/affine_quantize/affine_quantize.h"
#include "ops/choose_qparams/cuda_rule.h"

namespace tern::choose_qparams {
namespace {

using affine::kElems;
using affine::kThreads;
using affine::kVectors;
using affine::Lines;

constexpr unsigned kAllLanes = 0xFFFFFFFFU;
// The most threads that hold one range. With 1,024 each has 64 registers, too few for vectors of 8 elements and for
// f64.
template <class E>
constexpr int kMostThreads = sizeof(typename E::Raw) == 4 ? 1024 : 512;
template <class E>
constexpr std::int64_t kMostHeld = std::int64_t{kMostThreads<E>} * kVectors* kElems<E>;

template <class E>
struct SegmentJob {
  Lines lines;
  std::int64_t per_line, len, segments;
  int width;           // threads per segment, or per tile of it
  std::int64_t tiles;  // per segment
  affine::Access access;
  const void* x;
  bool saturate;
  CudaRule<E> rule;
  // Only for kernels that write codes.
  affine::CodeAccess code_access;
  std::uint8_t* codes;
  bool reciprocal;
};

template <class E>
SegmentJob<E> make_segments(const Params& params, const Lines& lines, const cuda::Launch& launch) {
  SegmentJob<E> job{};
  job.lines = lines;
  job.len = lines.run == Lines::Run::groups ? std::min(lines.group, lines.k) : lines.k;
  job.per_line = ceil_div(lines.k, job.len);
  job.segments = lines.count * job.per_line;
  job.access = affine::access_of<E>(lines, 0, params.x.data, job.per_line == 1 ? kElems<E> : job.len);
  job.x = params.x.data;
  job.saturate = params.problem.non_finite == NonFinite::saturate;
  job.rule = rule_of<E>(params, launch);
  return job;
}
// Whether every range is a segment that fits in the registers of its threads.
template <class E>
bool are_held(const Lines& lines, std::int64_t ranges) {
  if (lines.run == Lines::Run::each) return false;
  const std::int64_t len = lines.run == Lines::Run::groups ? std::min(lines.group, lines.k) : lines.k;
  return len <= kMostHeld<E> && lines.count * ceil_div(lines.k, len) == ranges;
}

// A segment: where it begins, and how many elements it has.
struct Segment {
  std::int64_t line, in_line = 0, column, n;
  template <class E>
  __device__ Segment(const SegmentJob<E>& job, std::int64_t segment) : line(segment) {
    if (job.per_line > 1) line = job.lines.count == 1 ? 0 : cuda::divide(segment, job.per_line, in_line);
    if (job.lines.count == 1) in_line = segment;
    column = in_line * job.len;
    n = segment >= job.segments ? 0 : min(job.len, job.lines.k - column);
  }
};

// The largest x and -x so far; without zero points the largest magnitude is both.
template <class E>
struct Extremes {
  using Math = typename E::Math;
  Math up = 0, down = 0;

  __device__ void take(const affine::Vector<E>& x, bool zero_points) {
    if (zero_points) {
#pragma unroll
      for (int j = 0; j < kElems<E>; ++j) {
        up = larger(up, x.value(j));
        down = larger(down, -x.value(j));
      }
    } else {
#pragma unroll
      for (int j = 0; j < kElems<E>; ++j) up = larger(up, magnitude(x.value(j)));
      down = up;
    }
  }
  __device__ void take(const Extremes& other) {
    up = larger(up, other.up);
    down = larger(down, other.down);
  }
  // Combines the extremes of each aligned group of `width` lanes of a warp.
  __device__ void fold(int width) {
    for (int distance = width / 2; distance > 0; distance /= 2)
      take({__shfl_xor_sync(kAllLanes, up, distance), __shfl_xor_sync(kAllLanes, down, distance)});
  }
  // Combines the extremes of `width` threads: part of a warp, or (kWide) a block.
  template <bool kWide>
  __device__ void fold_all(int width) {
    fold(kWide ? 32 : width);
    if constexpr (kWide) {
      __shared__ Math of_up[32], of_down[32];
      const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
      if (lane == 0) of_up[warp] = up, of_down[warp] = down;
      __syncthreads();
      *this = {};
      if (lane < width / 32) *this = {of_up[lane], of_down[lane]};
      fold(32);
    }
  }

 private:
  static __device__ float larger(float a, float b) { return fmaxf(a, b); }
  static __device__ double larger(double a, double b) { return fmax(a, b); }
  static __device__ float magnitude(float v) { return fabsf(v); }
  static __device__ double magnitude(double v) { return fabs(v); }
};

// Each segment is handled by part of a warp, or (kWide) by a block.
template <class E, bool kCodes, bool kWide>
__global__ void __launch_bounds__(kWide ? kMostThreads<E> : kThreads) hold_segments(const SegmentJob<E> job) {
  using Math = typename E::Math;
  const int width = job.width, thread = static_cast<int>(threadIdx.x) & (width - 1);
  const std::int64_t number = kWide ? blockIdx.x : affine::place_of_block(width);
  const Segment segment(job, number);
  const auto column = [&](int i) { return (i * width + thread) * kElems<E>; };
  const auto count = [&](int i) {
    const std::int64_t left = segment.n - column(i);
    return left >= kElems<E> ? kElems<E> : left > 0 ? static_cast<int>(left) : 0;
  };
  const auto* x = static_cast<const typename E::Raw*>(job.x);
  if (segment.n > 0) x += job.lines.offset_of(segment.line);

  affine::Vector<E> vectors[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) vectors[i].read(x, job.access, segment.column + column(i), count(i));
  Extremes<E> extremes;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (!vectors[i].finite())
      vectors[i].mend(job.rule.report, job.saturate, segment.line * job.lines.k + segment.column + column(i));
    extremes.take(vectors[i], job.rule.zero_points);
  }
  extremes.template fold_all<kWide>(width);
  if (segment.n == 0) return;
  const auto chosen = job.rule.choose(extremes.up, extremes.down);
  if (thread == 0) job.rule.store(number, chosen);
  if constexpr (kCodes) {
    const affine::Rounding<Math> rounding(chosen.scale, job.reciprocal, static_cast<Math>(job.rule.q.min - chosen.zero),
                                          static_cast<Math>(job.rule.q.max - chosen.zero));
    std::uint8_t* codes = job.codes + segment.line * job.lines.code_bytes;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int n = count(i);
      if (n == 0) return;
      Math v[kElems<E>], sums[kElems<E>];
#pragma unroll
      for (int j = 0; j < kElems<E>; ++j) v[j] = vectors[i].value(j);
      rounding.sums(v, sums);
      affine::Codes<E> of_vector;
      of_vector.take_sums(sums, chosen.zero, n);
      of_vector.write(codes, job.code_access, segment.column + column(i), n);
    }
  }
}

// The same for dense, consecutive segments of whole vectors, of floats no wider than f32. Writes codes of kBits, or
// none if kBits is 0.
template <class E, int kBits, bool kWide>
__global__ void __launch_bounds__(kWide ? kMostThreads<E> : kThreads) hold_plain(const SegmentJob<E> job) {
  const int width = job.width, thread = static_cast<int>(threadIdx.x) & (width - 1);
  const std::int64_t number = kWide ? blockIdx.x : affine::place_of_block(width);
  const auto all = static_cast<unsigned>(job.len) / kElems<E>;  // vectors per segment
  const unsigned count = number < job.segments ? all : 0;
  const auto* x = static_cast<const uint4*>(job.x) + number * all;
  const auto place = [&](int i) { return static_cast<unsigned>(i * width + thread); };

  affine::Vector<E> vectors[kVectors] = {};
#pragma unroll
  for (int i = 0; i < kVectors; ++i)
    if (place(i) < count) vectors[i] = affine::flat_read<E>(x, place(i));
  const auto mended = [&](affine::Vector<E> v, unsigned at) {
    if (!v.finite()) v.mend(job.rule.report, job.saturate, number * job.len + std::int64_t{at} * kElems<E>);
    return v;
  };
  Extremes<E> extremes;
  bool finite = true;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    finite = finite & vectors[i].finite();
    extremes.take(vectors[i], job.rule.zero_points);
  }
  if (!finite) {
    extremes = {};
#pragma unroll 1
    for (int i = 0; i < kVectors; ++i)
      if (place(i) < count) extremes.take(mended(affine::flat_read<E>(x, place(i)), place(i)), job.rule.zero_points);
  }
  extremes.template fold_all<kWide>(width);
  if (count == 0) return;
  const auto chosen = job.rule.choose(extremes.up, extremes.down);
  if (thread == 0) job.rule.store(number, chosen);
  if constexpr (kBits > 0) {
    const affine::Rounding<float> rounding(chosen.scale, job.reciprocal,
                                           static_cast<float>(job.rule.q.min - chosen.zero),
                                           static_cast<float>(job.rule.q.max - chosen.zero));
    std::uint8_t* to = job.codes + number * (all * kElems<E> * kBits / 8);
    const auto write = [&](unsigned at, const float(&sums)[kElems<E>]) {
      affine::Codes<E> codes;
      codes.take_sums(sums, chosen.zero);
      affine::FlatCodes<E, kBits>::write(to, at, codes);
    };
    float sums[kElems<E>];
    unsigned again = 0;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (place(i) >= count) break;
      if (affine::flat_quick(rounding, vectors[i], sums))
        write(place(i), sums);
      else
        again |= 1U << i;
    }
#pragma unroll 1
    for (; again != 0; again &= again - 1) {
      const unsigned at = place(__ffs(static_cast<int>(again)) - 1);
      const affine::Vector<E> v = mended(affine::flat_read<E>(x, at), at);
#pragma unroll
      for (int j = 0; j < kElems<E>; ++j) sums[j] = rounding.sum(v.value(j));
      write(at, sums);
    }
  }
}

template <class E, bool kCodes>
int launch_held(SegmentJob<E> job, cudaStream_t stream) {
  job.width = affine::threads_of_line<E>(job.len, kMostThreads<E>);
  const bool wide = job.width > 32;
  const auto blocks = static_cast<unsigned>(wide ? job.segments : ceil_div(job.segments, kThreads / job.width));
  auto* kernel = wide ? hold_segments<E, kCodes, true> : hold_segments<E, kCodes, false>;
  if constexpr (sizeof(typename E::Math) == 4) {
    const Lines& lines = job.lines;
    const bool plain = job.access.whole && job.len % kElems<E> == 0 && lines.k % job.len == 0 &&
                       (lines.count == 1 || (lines.leading == 1 && lines.tensors[0].leading[0] == lines.k));
    if constexpr (kCodes) {
      const int bits = job.code_access.bits;
      const bool codes = job.code_access.whole && (lines.count == 1 || lines.code_bytes * 8 == lines.k * bits);
      if (plain && codes && bits == 8) kernel = wide ? hold_plain<E, 8, true> : hold_plain<E, 8, false>;
      if (plain && codes && bits == 4) kernel = wide ? hold_plain<E, 4, true> : hold_plain<E, 4, false>;
    } else if (plain) {
      kernel = wide ? hold_plain<E, 0, true> : hold_plain<E, 0, false>;
    }
  }
  kernel<<<blocks, wide ? static_cast<unsigned>(job.width) : kThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

}  // namespace
}  // namespace tern::choose_qparams
