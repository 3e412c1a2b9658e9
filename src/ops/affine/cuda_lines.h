// How the CUDA kernels of the affine ops walk their lines: a block takes a tile of one line, a thread some vectors of
// it, and each vector finds its scale and zero point. For .cu files only.
//
//    line   [ tile 0 .............................. ][ tile 1 ....
//            v0 v1 v2 ... v255   v256 ...                a vector: 16 bytes of floats, four elements at least,
//            |  |         |      |                       so that its codes are whole bytes in every format
//     thread 0  1        255     0 ...
#pragma once

#include "base/checked.h"
#include "ops/affine/affine.h"
#include "ops/cuda_words.h"

namespace tern::affine {
namespace {

constexpr int kThreads = 256;
constexpr int kVectors = 4;  // of a thread, all read before the first is used
template <class E>
constexpr int kElems = sizeof(typename E::Raw) == 2 ? 8 : 4;  // of a vector
template <class E>
constexpr int kTile = kThreads* kVectors* kElems<E>;
constexpr std::int64_t kLargestTile = std::int64_t{kThreads} * kVectors * 8;

// Lines, and scales and zero points beside them, as a kernel gets them.
struct Walk {
  Lines lines;
  std::int64_t tiles = 0;       // of a line
  cuda::Divisor by_group = {};  // where a group is not longer than the largest tile
  bool whole = false;           // vectors of floats can be read and written as 16 bytes
  bool whole_codes = false;
  bool one_each = false;  // every vector lies in one range
  int bits = 8;           // of a code
  int sign = 0;           // the highest bit of a code that has a sign, else 0

  const void* scales = nullptr;
  bool scales_f32 = true;  // else of the floats' type
  const std::int32_t* zero_points = nullptr;
  int q_min = 0, q_max = 0;  // what a zero point may be
  cuda::Report report = {};
};

template <class E>
Walk make_walk(const Words& words, const Qparams& qparams, CodeRange q, const void* floats, const Shape& strides,
               const std::uint8_t* codes, std::int64_t code_row_bytes, const cuda::Launch& launch) {
  Walk walk{.lines = make_lines(words, strides, code_row_bytes)};
  const Lines& lines = walk.lines;
  walk.tiles = ceil_div(lines.k, std::int64_t{kTile<E>});
  if (lines.run == Lines::Run::groups && lines.group <= kLargestTile) walk.by_group = cuda::Divisor(lines.group);
  const auto on_boundary = [](std::int64_t bytes) { return bytes % 16 == 0; };
  walk.whole = lines.tensors[0].last == 1 && on_boundary(reinterpret_cast<std::intptr_t>(floats));
  for (int i = 0; i < lines.leading; ++i)
    walk.whole = walk.whole && on_boundary(lines.tensors[0].leading[static_cast<std::size_t>(i)] *
                                           static_cast<std::int64_t>(sizeof(typename E::Raw)));
  walk.bits = 8 / codes_per_byte(words.format);
  const std::int64_t vector_bytes = kElems<E> * walk.bits / 8;
  walk.whole_codes = reinterpret_cast<std::intptr_t>(codes) % vector_bytes == 0 &&
                     (lines.count == 1 || lines.code_bytes % vector_bytes == 0);
  walk.one_each = lines.run == Lines::Run::one || (lines.run == Lines::Run::groups && lines.group % kElems<E> == 0);
  walk.sign = code_range(words.format).min < 0 ? 1 << (walk.bits - 1) : 0;
  walk.scales = qparams.scales;
  walk.scales_f32 = qparams.scale_dtype == DType::f32;
  walk.zero_points = qparams.zero_points;
  walk.q_min = q.min;
  walk.q_max = q.max;
  walk.report = cuda::report_of(launch);
  return walk;
}

// Where a block is. Columns count from the tile's first.
struct Tile {
  std::int64_t line, first_column, rest;  // columns from the tile's first to the end of the line
  std::int64_t first_scale, into_group;

  __device__ explicit Tile(const Walk& walk, std::int64_t tile_elems) {
    line = blockIdx.x / walk.tiles;
    first_column = (blockIdx.x - line * walk.tiles) * tile_elems;
    rest = walk.lines.k - first_column;
    first_scale = walk.lines.scale_of(line);
    into_group = 0;
    if (walk.lines.run == Lines::Run::each) first_scale += first_column;
    if (walk.lines.run == Lines::Run::groups) {
      const std::int64_t group = first_column / walk.lines.group;
      first_scale += group;
      into_group = first_column - group * walk.lines.group;
    }
  }
  // Of elements of a vector at this column.
  __device__ int count(int column, int most) const {
    const std::int64_t left = rest - column;
    return left >= most ? most : left > 0 ? static_cast<int>(left) : 0;
  }
  __device__ std::int64_t scale_of(const Walk& walk, int column) const {
    if (walk.lines.run == Lines::Run::one) return first_scale;
    if (walk.lines.run == Lines::Run::each) return first_scale + column;
    const std::int64_t at = into_group + column;
    if (walk.lines.group > kLargestTile) return first_scale + (at >= walk.lines.group ? 1 : 0);  // one ends at most
    return first_scale + walk.by_group.quotient(static_cast<std::uint32_t>(at));
  }
};

// A scale and a zero point, looked at: those a GPU has, nobody could check before.
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
    if (zero < walk.q_min || zero > walk.q_max) walk.report(cuda::kInvalidZeroPoint, index);
  }
};

// Floats of a vector. What lies behind the line is 0.
template <class E>
__device__ void read_floats(const Walk& walk, const typename E::Raw* line, std::int64_t column, int n,
                            typename E::Raw (&raw)[kElems<E>]) {
  if (walk.whole && n == kElems<E>) {
    constexpr int kPieces = sizeof(raw) / 16;
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
      reinterpret_cast<uint4*>(raw)[i] = __ldcs(reinterpret_cast<const uint4*>(line + column) + i);
    return;
  }
#pragma unroll
  for (int j = 0; j < kElems<E>; ++j) raw[j] = j < n ? line[(column + j) * walk.lines.tensors[0].last] : 0;
}
template <class E>
__device__ void write_floats(const Walk& walk, typename E::Raw* line, std::int64_t column, int n,
                             const typename E::Raw (&raw)[kElems<E>]) {
  if (walk.whole && n == kElems<E>) {
    constexpr int kPieces = sizeof(raw) / 16;
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
      __stcs(reinterpret_cast<uint4*>(line + column) + i, reinterpret_cast<const uint4*>(raw)[i]);
    return;
  }
#pragma unroll
  for (int j = 0; j < kElems<E>; ++j)
    if (j < n) line[(column + j) * walk.lines.tensors[0].last] = raw[j];
}

// Four codes, a byte each, become those of a format, the first in the low bits; and back.
__device__ unsigned narrowed(unsigned bytes, int bits) {
  if (bits == 8) return bytes;
  if (bits == 4) {
    bytes &= 0x0F0F0F0FU;
    bytes = (bytes | bytes >> 4) & 0x00FF00FFU;
    return (bytes | bytes >> 8) & 0xFFFFU;
  }
  bytes &= 0x03030303U;
  bytes = (bytes | bytes >> 6) & 0x000F000FU;
  return (bytes | bytes >> 12) & 0xFFU;
}
__device__ unsigned widened(unsigned codes, int bits) {
  if (bits == 8) return codes;
  if (bits == 4) {
    codes = (codes | codes << 8) & 0x00FF00FFU;
    return (codes | codes << 4) & 0x0F0F0F0FU;
  }
  codes = (codes | codes << 12) & 0x000F000FU;
  return (codes | codes << 6) & 0x03030303U;
}

// The codes of a vector: one or two words of four bytes each.
template <int kWords>
__device__ void write_codes(const Walk& walk, std::uint8_t* to, int n, const unsigned (&words)[kWords]) {
  const int bits = walk.bits;
  std::uint64_t all = narrowed(words[0], bits);
  if constexpr (kWords == 2) all |= static_cast<std::uint64_t>(narrowed(words[1], bits)) << (4 * bits);
  if (walk.whole_codes && n == 4 * kWords) {
    const auto low = static_cast<unsigned>(all);
    switch (kWords * bits / 2) {  // bytes
      case 1: *to = static_cast<std::uint8_t>(low); return;
      case 2: *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(low); return;
      case 4: *reinterpret_cast<unsigned*>(to) = low; return;
      default: *reinterpret_cast<uint2*>(to) = make_uint2(low, static_cast<unsigned>(all >> 32)); return;
    }
  }
  for (int i = 0; i < (n * bits + 7) / 8; ++i) to[i] = static_cast<std::uint8_t>(all >> (8 * i));
}
template <int kWords>
__device__ void read_codes(const Walk& walk, const std::uint8_t* from, int n, unsigned (&words)[kWords]) {
  const int bits = walk.bits;
  std::uint64_t all = 0;
  if (walk.whole_codes && n == 4 * kWords) {
    switch (kWords * bits / 2) {
      case 1: all = *from; break;
      case 2: all = *reinterpret_cast<const std::uint16_t*>(from); break;
      case 4: all = *reinterpret_cast<const unsigned*>(from); break;
      default: {
        const uint2 two = *reinterpret_cast<const uint2*>(from);
        all = two.x | static_cast<std::uint64_t>(two.y) << 32;
      }
    }
  } else {
    for (int i = 0; i < (n * bits + 7) / 8; ++i) all |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  }
  words[0] = widened(static_cast<unsigned>(all), bits);
  if constexpr (kWords == 2) words[1] = widened(static_cast<unsigned>(all >> (4 * bits)), bits);
}

}  // namespace
}  // namespace tern::affine
