// ternary_dequantize for every GPU from sm_75: one kernel, limited by memory, for every format, layout and alignment.
//
// A group of lanes of one warp takes a tile of a row. Each lane loads 16 bytes of codes at a time and turns them into
// 2-bit indexes in shared memory, whatever their format. From these the lanes make vectors of y, 16 bytes each;
// neighbouring lanes write neighbouring vectors. The values for the tile's scales are computed once, into shared
// memory.
#include <type_traits>

#include "base/checked.h"
#include "format/format.h"
#include "ops/cuda_words.h"
#include "ops/ternary_dequantize/ternary_dequantize.h"

namespace tern::ternary_dequantize {
namespace {

constexpr int kThreads = 256;
constexpr int kMinLanes = 8, kMaxLanes = 32;  // in a group
constexpr int kPieceBytes = 16;               // bytes of codes in one load
// A tile keeps the values of at most this many ranges per lane: enough for groups of 32 in every format.
constexpr int kRangesEach = 3;
// Elements in 16 bytes.
template <class E>
constexpr int kVector = 16 / sizeof(typename E::Raw);

// Within a tile, longer ranges are treated as ranges of this length: see Place.
constexpr std::int64_t kLongRange = cuda::kDivisible / 2;

// What the kernel gets. The rows of a dense tensor may have been folded into one.
struct Job {
  const std::uint8_t* codes;
  std::int64_t codes_stride, row_bytes;
  const float* scales;
  void* y;
  std::int64_t y_stride;
  std::int64_t rows, k;
  std::int64_t range_len, ranges_per_row;  // ranges_per_row 0: one range for all rows
  cuda::Divisor by_range;                  // divides by range_len, at most kLongRange
  bool one_range;                          // each row has one range
  bool tiles_side_by_side;                 // groups of a block take tiles of one row, else different rows
  Format format;
  bool trits;  // codes are -1..1, else -2..1
  cuda::Report report;
};

// --- codes to indexes ---
//
// Codes of any format become 2-bit indexes, the first in the low bits, into the four values of a scale s:
//    index     0    1    2    3
//    trits    -s    0    s    -      the bits of i2
//    -2..1     0    s  -2s   -s      the bits of s2
//
// A format says how many codes a piece has and how many pieces a lane takes. Its indexes() turns a piece into words of
// 16 indexes, and returns false if a code, or padding, is invalid.

__device__ bool valid_indexes(unsigned word, bool trits) { return !trits || (word & (word >> 1) & 0x55555555U) == 0; }

struct TwoBits {  // i2 and s2
  static constexpr int kCodes = 64, kPieces = 1;
  static __device__ bool indexes(const uint4& piece, bool trits, unsigned* words) {
    *reinterpret_cast<uint4*>(words) = piece;
    return valid_indexes(piece.x, trits) && valid_indexes(piece.y, trits) && valid_indexes(piece.z, trits) &&
           valid_indexes(piece.w, trits);
  }
};

struct Bytes {  // i8
  static constexpr int kCodes = 16, kPieces = 4;
  // The indexes of four codes; sets bits of `beyond` if a code is invalid.
  static __device__ unsigned of_four(unsigned codes, bool trits, unsigned& beyond) {
    const unsigned lift = trits ? 0x01010101U : 0x02020202U;
    const unsigned lifted = ((codes & 0x7F7F7F7FU) + lift) ^ (codes & 0x80808080U);  // each byte, without carries
    beyond |= (lifted & 0xFCFCFCFCU) | (trits ? lifted & (lifted >> 1) & 0x01010101U : 0);
    unsigned bits = (trits ? lifted : codes) & 0x03030303U;
    bits = (bits | bits >> 6) & 0x000F000FU;
    return (bits | bits >> 12) & 0xFFU;
  }
  static __device__ bool indexes(const uint4& piece, bool trits, unsigned* words) {
    unsigned beyond = 0;
    *words = of_four(piece.x, trits, beyond) | of_four(piece.y, trits, beyond) << 8 |
             of_four(piece.z, trits, beyond) << 16 | of_four(piece.w, trits, beyond) << 24;
    return beyond == 0;
  }
};

struct Base3 {  // b3
  static constexpr int kCodes = 80, kPieces = 1;
  // Decodes two bytes, in bits 0..7 and 16..23, to ten bits each. Multiplying a byte by 3 moves its next digit above
  // bit 7; the digits before it then move down by two bits. What remains, byte * 243 % 256, is below 243 if the byte is
  // a packing of five trits.
  static __device__ unsigned of_two(unsigned bytes, unsigned& beyond) {
    unsigned bits = 0;
#pragma unroll
    for (int j = 0; j < 5; ++j) {
      bytes *= 3;
      bits = bits >> 2 | (bytes & 0x03000300U);
      bytes &= 0x00FF00FFU;
    }
    beyond |= (bytes + 0x000D000DU) & 0x01000100U;
    return bits;
  }
  static __device__ bool indexes(const uint4& piece, bool, unsigned* words) {
    const unsigned four[4] = {piece.x, piece.y, piece.z, piece.w};
    unsigned low[4], high[4];  // 20 bits each: of bytes 0 and 1, of bytes 2 and 3
    unsigned beyond = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned even = of_two(four[i] & 0x00FF00FFU, beyond), odd = of_two(four[i] >> 8 & 0x00FF00FFU, beyond);
      low[i] = (even & 0xFFFFU) | (odd & 0xFFFFU) << 10;
      high[i] = even >> 16 | (odd & 0xFFFF0000U) >> 6;
    }
    words[0] = low[0] | high[0] << 20;
    words[1] = high[0] >> 12 | low[1] << 8 | high[1] << 28;
    words[2] = high[1] >> 4 | low[2] << 16;
    words[3] = low[2] >> 16 | high[2] << 4 | low[3] << 24;
    words[4] = low[3] >> 8 | high[3] << 12;
    return beyond == 0;
  }
};

// Code j, counted from the first code of byte `from`.
__device__ int code_at(Format format, const std::uint8_t* from, unsigned j) {
  if (format == Format::i8) return static_cast<std::int8_t>(__ldg(from + j));
  if (format == Format::b3) {
    unsigned byte = __ldg(from + j / 5);
    if ((byte * 243U & 255U) >= 243) return 2;  // not a packing of five trits
    for (j %= 5; j > 0; --j) byte = byte * 3 & 255U;
    return static_cast<int>(byte * 3 >> 8) - 1;
  }
  const int bits = (__ldg(from + j / 4) >> (2 * (j % 4))) & 3;
  return format == Format::i2 ? bits - 1 : bits >= 2 ? bits - 4 : bits;
}

// Reads the codes of a piece again and reports the invalid ones.
__device__ void report_codes(const Job& job, std::int64_t row, std::int64_t piece, int codes) {
  const std::int64_t first = piece * codes;
  const std::uint8_t* from = job.codes + row * job.codes_stride + piece * kPieceBytes;
  for (int j = 0; j < codes; ++j)
    if (first >= 0 && first + j < job.k) {
      const int code = code_at(job.format, from, j);
      if (code < (job.trits ? -1 : -2) || code > 1) job.report(cuda::kInvalidCode, row * job.k + first + j);
    }
}

// Loads a piece of a row. Bytes before and after the row are 0.
__device__ uint4 load_piece(const Job& job, const std::uint8_t* row, std::int64_t piece) {
  const std::int64_t first = piece * kPieceBytes;
  const std::uint8_t* at = row + first;
  const auto low_bits = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(row));
  if (first >= 0 && first + kPieceBytes <= job.row_bytes) {
    if (low_bits % 16 == 0) return __ldg(reinterpret_cast<const uint4*>(at));
    if (low_bits % 4 == 0) {
      const auto* words = reinterpret_cast<const unsigned*>(at);
      return make_uint4(__ldg(words), __ldg(words + 1), __ldg(words + 2), __ldg(words + 3));
    }
  }
  unsigned words[4] = {};
#pragma unroll
  for (int i = 0; i < kPieceBytes; ++i)
    if (first + i >= 0 && first + i < job.row_bytes)
      words[i / 4] |= static_cast<unsigned>(__ldg(at + i)) << (8 * (i % 4));
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// --- indexes to vectors ---

// straight_bits(): the indexes of vector i. bits_at(): the indexes of the vector that starts at code `at`.
template <int kCodes>
__device__ unsigned straight_bits(const unsigned* words, int i) {
  if constexpr (kCodes == 8) return reinterpret_cast<const std::uint16_t*>(words)[i];
  const unsigned byte = reinterpret_cast<const std::uint8_t*>(words)[kCodes == 4 ? i : i / 2];
  return kCodes == 4 ? byte : byte >> (4 * (i % 2));
}
template <int kCodes>
__device__ unsigned bits_at(const unsigned* words, int at) {
  return __funnelshift_r(words[at / 16], words[at / 16 + 1], 2 * (at % 16)) & ((1U << (2 * kCodes)) - 1);
}

// What is kept for a scale: if elements have two bytes, their four values side by side; else the scale in y's type.
template <class E>
using Kept = std::conditional_t<sizeof(typename E::Raw) == 2, uint2, typename E::Raw>;

template <class E>
__device__ Kept<E> kept(float scale, bool trits) {
  if constexpr (sizeof(typename E::Raw) == 2) {
    const auto two = [](float a, float b) { return E::round(a) | static_cast<unsigned>(E::round(b)) << 16; };
    return trits ? make_uint2(two(-scale, 0), two(scale, 0)) : make_uint2(two(0, scale), two(-2 * scale, -scale));
  } else {
    return scale;
  }
}

// The value of the index in the low bits.
template <class Raw>
__device__ Raw value(unsigned index, Raw s, bool trits) {
  const Raw even = trits ? ((index & 2U) != 0 ? s : -s) : ((index & 2U) != 0 ? -2 * s : 0);
  const Raw odd = trits ? 0 : ((index & 2U) != 0 ? -s : s);
  return (index & 1U) != 0 ? odd : even;
}

// Makes 16 bytes of y. If elements have two bytes, __byte_perm picks them from the eight bytes of the four values:
//    selector   [2b+1][2b][2a+1][2a]  of indexes a, b; a * 0x22 + 0x10 selects both bytes of value a
template <class E>
__device__ uint4 vector_of(unsigned bits, Kept<E> from, bool trits) {
  if constexpr (sizeof(typename E::Raw) == 2) {
    const auto selectors = [](unsigned four) {  // 8 bits to two selectors
      four = (four | four << 12) & 0x000F000FU;
      four = (four | four << 6) & 0x03030303U;
      return four * 0x22U + 0x10101010U;
    };
    const unsigned first = selectors(bits & 0xFFU), second = selectors(bits >> 8);
    return make_uint4(__byte_perm(from.x, from.y, first), __byte_perm(from.x, from.y, first >> 16),
                      __byte_perm(from.x, from.y, second), __byte_perm(from.x, from.y, second >> 16));
  } else if constexpr (sizeof(typename E::Raw) == 4) {
    const auto v = [&](int i) { return __float_as_uint(value(bits >> (2 * i), from, trits)); };
    return make_uint4(v(0), v(1), v(2), v(3));
  } else {
    const double a = value(bits, from, trits), b = value(bits >> 2, from, trits);
    return make_uint4(__double2loint(a), __double2hiint(a), __double2loint(b), __double2hiint(b));
  }
}

// The first `bytes` bytes of head, then the rest of tail. Elements have two bytes or more.
__device__ uint4 joined(const uint4& head, const uint4& tail, int bytes) {
  const auto word = [bytes](unsigned a, unsigned b, int first) {
    return bytes <= first ? b : bytes >= first + 4 ? a : __byte_perm(a, b, 0x7610);
  };
  return make_uint4(word(head.x, tail.x, 0), word(head.y, tail.y, 4), word(head.z, tail.z, 8),
                    word(head.w, tail.w, 12));
}

// A streaming store, because this kernel does not read y again.
__device__ void store_whole(void* to, const uint4& vector) { __stcs(static_cast<uint4*>(to), vector); }

// Stores the elements [begin, end) of a vector.
template <class E>
__device__ void store_some(typename E::Raw* to, int begin, int end, const uint4& vector) {
  if (begin <= 0 && end >= kVector<E>) return store_whole(to, vector);
  const unsigned words[4] = {vector.x, vector.y, vector.z, vector.w};
  constexpr int kSize = sizeof(typename E::Raw);
#pragma unroll
  for (int i = 0; i < kVector<E>; ++i) {
    if (i < begin || i >= end) continue;
    if constexpr (kSize == 2) to[i] = static_cast<std::uint16_t>(words[i / 2] >> (16 * (i % 2)));
    if constexpr (kSize == 4) to[i] = __uint_as_float(words[i]);
    if constexpr (kSize == 8)
      to[i] = __hiloint2double(static_cast<int>(words[2 * i + 1]), static_cast<int>(words[2 * i]));
  }
}

// --- the kernel ---

// A tile of a row. Its columns are counted from its first vector, which starts at a 16-byte boundary of y. That is
// `shift` elements before a piece boundary of the codes, so the tile also reads the last piece of the previous tile.
//
//    codes      [....|....|....|....|       where vectors would be if the row of y were aligned
//    vectors  [..|....|....|....|...        where they are, here with shift 2
template <class E, class Codes, bool kStraight>
struct Tile {
  std::int64_t first_piece, first_column;
  int shift;
  int begin, end;  // its columns in the row are [begin, end); none if end <= begin
  __device__ Tile(const Job& job, std::int64_t index, int lanes, const typename E::Raw* row) {
    const int pieces = lanes * Codes::kPieces - (kStraight ? 0 : 1), columns = pieces * Codes::kCodes;
    shift = kStraight ? 0 : static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % 16 / sizeof(*row));
    first_piece = index * pieces - (kStraight ? 0 : 1);
    first_column = index * columns - shift;
    begin = first_column < 0 ? shift : 0;
    end = static_cast<int>(min(job.k - first_column, std::int64_t{columns}));
  }
};

// Finds the first range of a tile; other ranges of the tile follow from the distance to its first column.
struct Place {
  std::int64_t first_range;  // of the row
  std::uint32_t offset;      // columns of first_range before the tile's first
  __device__ Place(const Job& job, std::int64_t column) {
    if (job.one_range)
      first_range = 0;
    else if (job.k < cuda::kDivisible && job.range_len <= kLongRange)
      first_range = job.by_range.quotient(static_cast<std::uint32_t>(column));
    else
      first_range = column / job.range_len;
    // A long range keeps its end; its start moves so that it is kLongRange columns long.
    std::int64_t before = column - first_range * job.range_len;
    if (job.range_len > kLongRange) before = max(std::int64_t{0}, kLongRange - (job.range_len - before));
    offset = static_cast<std::uint32_t>(before);
  }
};

// Blocks that a multiprocessor should hold at once: as many as registers allow without spills. Before sm_80, 4 blocks
// are all the threads it can hold.
template <class Codes, bool kStraight>
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kResident = 4;
#else
constexpr int kResident = kStraight ? (Codes::kPieces == 1 ? 6 : 5) : 4;
#endif

// kStraight: every row of y starts at a 16-byte boundary, and no vector spans two ranges.
template <class E, class Codes, bool kStraight>
__global__ void __launch_bounds__(kThreads, kResident<Codes, kStraight>) dequantize(const __grid_constant__ Job job) {
  constexpr int kWords = Codes::kPieces * Codes::kCodes / 16, kPad = 4;  // words per lane; padding words per group
  __shared__ alignas(16) unsigned all_words[kThreads * kWords + kThreads / kMinLanes * kPad];
  __shared__ Kept<E> all_kept[kThreads * kRangesEach];

  const int lane = static_cast<int>(threadIdx.x), lanes = static_cast<int>(blockDim.x);
  std::int64_t row = static_cast<std::int64_t>(blockIdx.z) * gridDim.y + blockIdx.y, index = blockIdx.x;
  if (job.tiles_side_by_side)
    index = index * blockDim.y + threadIdx.y;
  else
    row = row * blockDim.y + threadIdx.y;
  if (row >= job.rows) return;

  const std::uint8_t* codes = job.codes + row * job.codes_stride;
  auto* y = static_cast<typename E::Raw*>(job.y) + row * job.y_stride;
  const Tile<E, Codes, kStraight> tile(job, index, lanes, y);
  if (tile.end <= tile.begin) return;
  y += tile.first_column;
  uint4 pieces[Codes::kPieces];
#pragma unroll
  for (int i = 0; i < Codes::kPieces; ++i) pieces[i] = load_piece(job, codes, tile.first_piece + i * lanes + lane);

  // Scales. If the tile has too many to keep, they are read again for each vector.
  const Place place(job, tile.first_column + tile.begin);
  const float* scales = job.scales + row * job.ranges_per_row + place.first_range;
  const int offset = static_cast<int>(place.offset) - tile.begin;
  const auto range_of = [&](int column) { return static_cast<int>(job.by_range.quotient(offset + column)); };
  const auto kept_of = [&](int range) {
    const float scale = __ldg(scales + range);
    if (!valid_scale(scale)) job.report(cuda::kInvalidScale, scales + range - job.scales);
    return kept<E>(scale, job.trits);
  };
  Kept<E>* const keep = all_kept + threadIdx.y * lanes * kRangesEach;
  const int ranges = range_of(tile.end - 1) + 1;
  const bool keeping = ranges <= lanes * kRangesEach;
  if (keeping)
    for (int range = lane; range < ranges; range += lanes) keep[range] = kept_of(range);

  unsigned* const words = all_words + threadIdx.y * (lanes * kWords + kPad);
  bool valid = true;
#pragma unroll
  for (int i = 0; i < Codes::kPieces; ++i)
    valid = Codes::indexes(pieces[i], job.trits, words + (i * lanes + lane) * (Codes::kCodes / 16)) && valid;
  if (!valid)
    for (int i = 0; i < Codes::kPieces; ++i) report_codes(job, row, tile.first_piece + i * lanes + lane, Codes::kCodes);
  __syncwarp();

  // easy: the tile is whole, its values are kept, and each vector has one range.
  const auto put_vector = [&](int i, bool easy) {
    const int column = i * kVector<E>;
    const unsigned bits = kStraight ? straight_bits<kVector<E>>(words, i)
                                    : bits_at<kVector<E>>(words, Codes::kCodes - tile.shift + column);
    const auto from = [&](int range) { return easy || keeping ? keep[range] : kept_of(range); };
    int range = range_of(easy ? column : max(column, tile.begin));
    uint4 vector = vector_of<E>(bits, from(range), job.trits);
    if constexpr (!kStraight) {  // braces: without them nvcc 13.0 drops the code after a discarded loop
      const int last = range_of(min(column + kVector<E>, tile.end) - 1);
      while (range < last) {
        const int first = ++range * static_cast<int>(min(job.range_len, kLongRange)) - offset - column;
        vector = joined(vector, vector_of<E>(bits, from(range), job.trits),
                        first * static_cast<int>(sizeof(typename E::Raw)));
      }
    }
    if (easy)
      store_whole(y + column, vector);
    else
      store_some<E>(y + column, tile.begin - column, tile.end - column, vector);
  };
  constexpr int kVectors = Codes::kPieces * Codes::kCodes / kVector<E>;  // per lane
  if (kStraight && keeping && tile.end == kVectors * kVector<E> * lanes) {
#pragma unroll 4
    for (int i = 0; i < kVectors; ++i) put_vector(i * lanes + lane, true);
  } else {
#pragma unroll 1
    for (int i = lane; i * kVector<E> < tile.end; i += lanes) put_vector(i, false);
  }
}

// --- launches ---

std::size_t workspace_bytes(const TernaryDequantize::Problem&) { return 0; }

// Folds dense rows into one row if ranges and vectors stay whole, so that short rows fill tiles too.
template <class E>
void fold_rows(Job& job) {
  const std::int64_t per_byte = codes_per_byte(job.format);
  const bool dense = job.y_stride == job.k && job.k % per_byte == 0 && job.codes_stride == job.k / per_byte;
  const bool ranges_fit = job.ranges_per_row == 0 || (job.k % job.range_len == 0 && job.range_len % kVector<E> == 0);
  if (!dense || !ranges_fit) return;
  job.k *= job.rows;
  job.ranges_per_row *= job.rows;
  job.rows = 1;
  if (job.ranges_per_row == 0) job.range_len = job.k;
}

template <class E, class Codes, bool kStraight>
int launch_kernel(Job job, cudaStream_t stream) {
  constexpr std::int64_t kMaxX = 0x7FFFFFFF, kMaxY = 65535;
  int lanes = kMinLanes;
  while (lanes < kMaxLanes && lanes * Codes::kPieces * Codes::kCodes < job.k) lanes *= 2;
  const int groups = kThreads / lanes;
  const std::int64_t columns = job.k + (kStraight ? 0 : kVector<E> - 1);
  const std::int64_t tiles = ceil_div(columns, (lanes * Codes::kPieces - (kStraight ? 0 : 1)) * Codes::kCodes);
  job.tiles_side_by_side = tiles >= groups;
  const std::int64_t blocks_x = job.tiles_side_by_side ? ceil_div(tiles, groups) : tiles;
  const std::int64_t rows = job.tiles_side_by_side ? job.rows : ceil_div(job.rows, groups);
  const std::int64_t blocks_y = rows < kMaxY ? rows : kMaxY;
  if (blocks_x > kMaxX || ceil_div(rows, blocks_y) > kMaxY) return cudaErrorInvalidConfiguration;
  const dim3 blocks(static_cast<unsigned>(blocks_x), static_cast<unsigned>(blocks_y),
                    static_cast<unsigned>(ceil_div(rows, blocks_y)));
  dequantize<E, Codes, kStraight><<<blocks, dim3(lanes, groups), 0, stream>>>(job);
  return cudaGetLastError();
}

template <class E, class Codes>
int launch_format(const Job& job, cudaStream_t stream) {
  const std::int64_t stride_bytes = job.y_stride * static_cast<std::int64_t>(sizeof(typename E::Raw));
  const bool aligned = reinterpret_cast<std::uintptr_t>(job.y) % 16 == 0 && (job.rows == 1 || stride_bytes % 16 == 0);
  if (aligned && (job.one_range || job.range_len % kVector<E> == 0)) return launch_kernel<E, Codes, true>(job, stream);
  return launch_kernel<E, Codes, false>(job, stream);
}

template <class E>
int launch_as(Job job, cudaStream_t stream) {
  if (job.rows == 0 || job.k == 0) return cudaSuccess;
  fold_rows<E>(job);
  job.row_bytes = ceil_div(job.k, codes_per_byte(job.format));
  job.one_range = job.ranges_per_row <= 1;
  job.by_range = cuda::Divisor(job.range_len < kLongRange ? job.range_len : kLongRange);
  if (job.format == Format::i8) return launch_format<E, Bytes>(job, stream);
  if (job.format == Format::b3) return launch_format<E, Base3>(job, stream);
  return launch_format<E, TwoBits>(job, stream);
}

int launch(const Params& params, std::byte*, const cuda::Launch& launch) {
  const auto& p = params.problem;
  const bool one_range = params.ranges.per_row == 0;
  const Job job{.codes = params.codes,
                .codes_stride = params.codes_stride,
                .row_bytes = 0,
                .scales = params.scales,
                .y = params.y,
                .y_stride = params.y_stride,
                .rows = p.rows,
                .k = p.k,
                .range_len = one_range ? p.k : params.ranges.len,
                .ranges_per_row = params.ranges.per_row,
                .by_range = {},
                .one_range = one_range,
                .tiles_side_by_side = false,
                .format = p.format,
                .trits = code_range(p.scheme).min == -1,
                .report = cuda::report_of(launch)};
  return cuda::with_element(
      p.dtype, [&]<class E>() -> int { return launch_as<E>(job, static_cast<cudaStream_t>(launch.stream)); });
}

}  // namespace

extern const Cuda cuda_sm75;
const Cuda cuda_sm75{workspace_bytes, launch};

}  // namespace tern::ternary_dequantize
