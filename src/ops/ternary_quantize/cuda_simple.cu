// The plain ternary_quantize on a GPU: a block per range finds its scale, then a thread per byte makes the codes. It
// takes tensors of any alignment, and is a second opinion on the fast kernels.
#include <cstring>

#include "format/format.h"
#include "ops/cuda_block_folds.h"
#include "ops/cuda_words.h"
#include "ops/ternary_quantize/scale.h"
#include "ops/ternary_quantize/ternary_quantize.h"

namespace tern::ternary_quantize {

extern const Cuda cuda_simple;

namespace {

using cuda::kThreads;
using cuda::largest;
using cuda::ordered_sum;

// What the kernels get.
struct Tensor {
  const unsigned char* x;
  unsigned char* codes;
  unsigned char* scales;
  const unsigned char* given;
  std::int64_t rows, k, x_stride, codes_stride, given_step, len, per_row, total;
  Scheme scheme;
  Format format;
  bool saturates;
  cuda::Report report;
};

// Values at any address, aligned or not.
template <class T>
__device__ T read(const unsigned char* from, std::int64_t index) {
  T v;
  memcpy(&v, from + index * static_cast<std::int64_t>(sizeof v), sizeof v);
  return v;
}
__device__ void write(unsigned char* to, std::int64_t index, float v) { memcpy(to + 4 * index, &v, 4); }

// An element by its row-major index.
template <class E>
__device__ typename E::Math element(const Tensor& t, std::int64_t index) {
  const std::int64_t row = index / t.k;
  const auto v = E::widen(read<typename E::Raw>(t.x, row * t.x_stride + index - row * t.k));
  return t.saturates ? cuda::saturated<E>(v) : v;
}

// A range by its first element and its length.
struct Range {
  std::int64_t first, n;
  __device__ Range(const Tensor& t, std::int64_t r) {
    const std::int64_t column = t.per_row == 0 ? 0 : r % t.per_row * t.len;
    first = t.per_row == 0 ? 0 : r / t.per_row * t.k + column;
    n = t.per_row == 0 || column + t.len <= t.k ? t.len : t.k - column;
  }
};

template <class T>
__device__ T mean(double sum, double count) {
  const T m = static_cast<T>(__ddiv_rn(sum, count));
  return m > T{kMinMean} ? m : T{kMinMean};
}

template <class E>
__device__ typename E::Math scale_of(const Tensor& t, const Range& range, std::int64_t r) {
  using T = typename E::Math;
  const auto at = [&](std::int64_t i) { return element<E>(t, range.first + i); };
  const auto magnitude = [&](std::int64_t i) { return at(i) < 0 ? -at(i) : at(i); };
  if (t.given != nullptr) {
    const float s = read<float>(t.given, r * t.given_step);
    if (!(s > 0 && cuda::finite(s))) t.report(cuda::kInvalidScale, r * t.given_step);
    return s;
  }
  T top = 0;
  if (t.scheme == Scheme::absmax) top = largest<T>(range.n, magnitude);
  if (t.scheme == Scheme::int2) {
    const T up = largest<T>(range.n, at), down = largest<T>(range.n, [&](std::int64_t i) { return -at(i); });
    top = up > down / 2 ? up : down / 2;
  }
  if (t.scheme == Scheme::absmax || t.scheme == Scheme::int2) return top > T{kMinMax} ? top : T{kMinMax};

  T s = mean<T>(ordered_sum(range.n, magnitude), static_cast<double>(range.n));
  for (int round = 1; t.scheme == Scheme::mse && round <= kMaxMseRounds; ++round) {
    const auto above = [&](std::int64_t i) { return 2 * magnitude(i) > s; };
    // A sum of ones is exact in any order.
    const double count = ordered_sum(range.n, [&](std::int64_t i) { return above(i) ? 1.0 : 0.0; });
    if (count == 0) break;
    const T next = mean<T>(ordered_sum(range.n, [&](std::int64_t i) { return above(i) ? magnitude(i) : T{0}; }), count);
    if (next == s) break;
    s = next;
  }
  return s;
}

template <class E>
__global__ void __launch_bounds__(kThreads) find_scales(const Tensor t) {
  for (std::int64_t r = blockIdx.x; r < t.total; r += gridDim.x) {
    const Range range(t, r);
    for (std::int64_t i = threadIdx.x; i < range.n; i += kThreads)
      if (!cuda::finite(element<E>(t, range.first + i))) {
        t.report(cuda::kNonFinite, range.first + i);
        break;
      }
    const auto s = static_cast<float>(scale_of<E>(t, range, r));
    if (threadIdx.x != 0) continue;
    if (t.given == nullptr && !cuda::finite(s)) t.report(cuda::kScaleTooLarge, r);
    write(t.scales, r, s);
  }
}

template <class T>
__device__ int code_of(T v, T s, Scheme scheme) {
  if (scheme != Scheme::int2) return 2 * (v < 0 ? -v : v) > s ? (v > 0 ? 1 : -1) : 0;
  const T ratio = v / s;
  return static_cast<int>(rint(ratio < -2 ? T{-2} : ratio > 1 ? T{1} : ratio));
}

template <class E>
__global__ void __launch_bounds__(kThreads) write_codes(const Tensor t) {
  using T = typename E::Math;
  const std::int64_t bytes = row_bytes(t.format, t.k);
  const int per_byte = codes_per_byte(t.format);
  for (std::int64_t at = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; at < t.rows * bytes;
       at += gridDim.x * std::int64_t{kThreads}) {
    const std::int64_t row = at / bytes, byte = at % bytes;
    unsigned i8 = 0, fours = 0, threes = 0;
    for (int j = 0; j < per_byte; ++j) {
      const std::int64_t column = byte * per_byte + j;
      int code = 0;  // of padding too
      if (column < t.k) {
        const float s = read<float>(t.scales, t.per_row == 0 ? 0 : row * t.per_row + column / t.len);
        code = code_of<T>(element<E>(t, row * t.k + column), T{s}, t.scheme);
      }
      i8 = static_cast<unsigned>(code);
      fours |= (static_cast<unsigned>(t.format == Format::i2 ? code + 1 : code) & 3U) << (2 * j);
      threes = 3 * threes + static_cast<unsigned>(code + 1);
    }
    if (t.format == Format::b3) fours = (threes * 256 + 242) / 243;
    t.codes[row * t.codes_stride + byte] = static_cast<unsigned char>(t.format == Format::i8 ? i8 : fours);
  }
}

std::size_t workspace_bytes(const TernaryQuantize::Problem&) { return 0; }

int launch(const Params& p, std::byte*, const cuda::Launch& launch) {
  if (p.ranges.total == 0) return 0;
  const Tensor t{static_cast<const unsigned char*>(p.x),
                 p.codes,
                 reinterpret_cast<unsigned char*>(p.scales),
                 reinterpret_cast<const unsigned char*>(p.given),
                 p.problem.rows,
                 p.problem.k,
                 p.x_stride,
                 p.codes_stride,
                 p.given_step,
                 p.ranges.len,
                 p.ranges.per_row,
                 p.ranges.total,
                 p.problem.scheme,
                 p.problem.format,
                 p.problem.non_finite == NonFinite::saturate,
                 cuda::report_of(launch)};
  constexpr std::int64_t kMaxBlocks = 1 << 20;
  const std::int64_t bytes = p.problem.rows * row_bytes(p.problem.format, p.problem.k);
  const auto range_blocks = static_cast<unsigned>(t.total < kMaxBlocks ? t.total : kMaxBlocks);
  const auto byte_blocks = static_cast<unsigned>(bytes / kThreads < kMaxBlocks ? bytes / kThreads + 1 : kMaxBlocks);
  auto* stream = static_cast<cudaStream_t>(launch.stream);
  return cuda::with_element(p.problem.dtype, [&]<class E>() {
    find_scales<E><<<range_blocks, kThreads, 0, stream>>>(t);
    write_codes<E><<<byte_blocks, kThreads, 0, stream>>>(t);
    return static_cast<int>(cudaGetLastError());
  });
}

}  // namespace

const Cuda cuda_simple{workspace_bytes, launch};

}  // namespace tern::ternary_quantize
