// Packs canonical rows into the tiles that GPUs read. For trits, a warp makes tiles of 16 rows by 128 columns:
//
// Lane 4g + t makes words 0 to 3 of its part of a tile (tile_mma.h). Word i has, of row g + 8 * (i % 2), the i2 bytes
//     8s + 4 * (i / 2) + t,  s = 0..3        four columns each, those of step s
// so a word is four bytes of a row, 4 x 4 codes, transposed. Lane t reads bytes 8t to 8t + 7, those of step t, and the
// four lanes of a row exchange them: a 4 x 4 transpose of bytes.
#include "ops/dot/cuda_tile.h"

#include "base/checked.h"
#include "format/b3.h"
#include "format/format.h"
#include "format/i2.h"
#include "format/tile16.h"
#include "format/tile_mma.h"
#include "ops/cuda_words.h"

namespace tern::dot {
namespace {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;
constexpr int kThreads = 256;
constexpr int kTilesEach = 4;                                  // tiles that a warp loads at once: 2 KB
constexpr std::int64_t kTileRowBytes = TileMma::kColumns / 4;  // i2
constexpr unsigned kLow = 0x55555555U, kZeros = 0x55555555U;   // low bits of all pairs; code of 0 in all

// --- words of 16 codes ---

// Codes (trit + 1) in two's complement: 0 1 2 become 3 0 1; 3, which is no trit, becomes 0.
__device__ unsigned trits_of(unsigned codes) { return (~codes & kLow) | (~(codes | codes >> 1) & kLow) << 1; }

// Byte s of lane t of four becomes byte t of lane s.
__device__ unsigned transpose_bytes(unsigned word, int t) {
  unsigned other = __shfl_xor_sync(kAllLanes, word, 1);
  word = __byte_perm(word, other, t & 1 ? 0x3715 : 0x6240);
  other = __shfl_xor_sync(kAllLanes, word, 2);
  return __byte_perm(word, other, t & 2 ? 0x3276 : 0x5410);
}

// --- canonical rows ---

// The five codes of a b3 byte, the first in the low bits. All are 3 if the byte encodes no trits.
__device__ unsigned codes_of_b3(std::uint8_t byte) {
  if (!b3::valid(byte)) return 0x3FF;
  unsigned q = byte, codes = 0;
#pragma unroll
  for (int j = 0; j < 5; ++j) {
    q *= 3;
    codes |= (q >> 8) << (2 * j);
    q &= 255;
  }
  return codes;
}

// Four neighbouring codes of a b3 row, in i2 form. Columns beyond the row's bytes have weight 0.
__device__ unsigned quad_of_b3(const std::uint8_t* row, std::int64_t bytes, std::int64_t column) {
  const std::int64_t at = column / 5;
  const auto j = static_cast<int>(column % 5);
  if (at >= bytes) return kZeros & 0xFF;
  const unsigned behind = j > 1 && at + 1 < bytes ? codes_of_b3(row[at + 1]) : kZeros & 0x3FF;
  return (codes_of_b3(row[at]) | behind << 10) >> (2 * j) & 0xFF;
}

// Loads eight bytes of an i2 row. Columns beyond the row's bytes have weight 0.
__device__ uint2 load_eight(const std::uint8_t* row, std::int64_t bytes, std::int64_t at, bool aligned) {
  if (aligned && at + 8 <= bytes) return *reinterpret_cast<const uint2*>(row + at);
  unsigned words[2] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) words[i / 4] |= (at + i < bytes ? row[at + i] : kZeros & 0xFF) << (8 * (i % 4));
  return make_uint2(words[0], words[1]);
}

// --- tiling ---

struct Item {
  std::int64_t row, tile;  // the lane's first row, in the piece; the first column tile
};

// The items of a warp: kTilesEach column tiles of 16 rows.
struct Items {
  std::int64_t column_groups, count;
  __host__ __device__ explicit Items(const TilePiece& piece)
      : column_groups(ceil_div(ceil_div(piece.k, TileMma::kColumns), kTilesEach)),
        count(column_groups * ceil_div(piece.rows, TileMma::kRows)) {}
  [[nodiscard]] __device__ Item at(std::int64_t index, int lane) const {
    return {index / column_groups * TileMma::kRows + lane / 4, index % column_groups * kTilesEach};
  }
};

// The column of byte b and step s of word i.
__device__ std::int64_t column_of(std::int64_t tile, int t, int i, int b, int s) {
  return tile * TileMma::kColumns + 32 * s + 16 * (i / 2) + 4 * t + b;
}

// Word i of a lane from its codes. Columns beyond k get weight 0; codes that are no trit are reported.
__device__ unsigned checked_trits(const TilePiece& piece, unsigned codes, std::int64_t row, std::int64_t tile, int t,
                                  int i, const cuda::Report& report) {
  const bool ends = (tile + 1) * TileMma::kColumns > piece.k;
  if (!ends && (codes & codes >> 1 & kLow) == 0) return trits_of(codes);
  for (int b = 0; b < 4; ++b)
    for (int s = 0; s < 4; ++s) {
      const std::int64_t column = column_of(tile, t, i, b, s);
      const int bit = 8 * b + 2 * s;
      if (column >= piece.k)
        codes = (codes & ~(3U << bit)) | 1U << bit;
      else if ((codes >> bit & 3) == 3)
        report(cuda::kInvalidCode, (piece.first_row + row) * piece.k + column);
    }
  return trits_of(codes);
}

template <Format kFormat>
__global__ void __launch_bounds__(kThreads)
    tile_rows(const TileJob job, const std::int64_t row_bytes, const bool aligned, const cuda::Report report) {
  const TilePiece& piece = job.piece;
  const Items items(piece);
  const std::int64_t column_tiles = ceil_div(piece.k, TileMma::kColumns);
  const int lane = threadIdx.x % kWarp, t = lane % 4;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * (kThreads / kWarp);
  std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp;
  for (; index < items.count; index += step) {
    const Item item = items.at(index, lane);
    const bool there[2] = {item.row < piece.rows, item.row + 8 < piece.rows};
    const std::uint8_t* rows[2];
    for (int r = 0; r < 2; ++r) rows[r] = job.codes + (there[r] ? item.row + 8 * r : 0) * piece.stride_bytes;

    uint2 read[kTilesEach][2];  // of i2: bytes of each of two rows
    if constexpr (kFormat == Format::i2) {
#pragma unroll
      for (int d = 0; d < kTilesEach; ++d)
#pragma unroll
        for (int r = 0; r < 2; ++r)
          read[d][r] = there[r] ? load_eight(rows[r], row_bytes, (item.tile + d) * kTileRowBytes + 8 * t, aligned)
                                : make_uint2(kZeros, kZeros);
    }
#pragma unroll
    for (int d = 0; d < kTilesEach; ++d) {
      const std::int64_t tile = item.tile + d;
      if (tile >= column_tiles) break;  // the same for all lanes
      unsigned words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        unsigned bytes = 0;  // byte s: the codes of step s
        if constexpr (kFormat == Format::i2) {
          bytes = transpose_bytes(i / 2 == 0 ? read[d][i % 2].x : read[d][i % 2].y, t);
        } else {
          for (int s = 0; s < 4; ++s)
            bytes |= (there[i % 2] ? quad_of_b3(rows[i % 2], row_bytes, column_of(tile, t, i, 0, s)) : kZeros & 0xFF)
                     << (8 * s);
        }
        words[i] = checked_trits(piece, Tile16::transpose(bytes), item.row + 8 * (i % 2), tile, t, i, report);
      }
      const std::int64_t row_tile = (piece.first_row + item.row) / TileMma::kRows;
      reinterpret_cast<uint4*>(job.tiles)[(row_tile * column_tiles + tile) * kWarp + lane] =
          make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
}

// --- tiling weights of 8 and 4 bits: one thread for each 16 bytes of a tile ---

template <class W>
__global__ void __launch_bounds__(kThreads) tile_wide(const TileJob job) {
  const TilePiece& piece = job.piece;
  constexpr int kTileLoads = W::kTileBytes / 16;  // of all lanes
  const std::int64_t column_tiles = ceil_div(piece.k, TileMma::kColumns);
  const std::int64_t count = ceil_div(piece.rows, TileMma::kRows) * column_tiles * kTileLoads;
  auto* const to = reinterpret_cast<uint4*>(job.tiles) + piece.first_row / TileMma::kRows * column_tiles * kTileLoads;
  std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; index < count; index += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    const auto lane = static_cast<int>(index % kWarp), load = static_cast<int>(index / kWarp % W::kLoads);
    const std::int64_t tile = index / kTileLoads, row = tile / column_tiles * TileMma::kRows + lane / 4;
    const auto word = [&](int i) {
      const std::int64_t of = row + 8 * (i % 2);
      if (of >= piece.rows) return 0U;
      return W::word(job.codes + of * piece.stride_bytes, piece.k, tile % column_tiles, load, i, lane % 4);
    };
    to[index] = make_uint4(word(0), word(1), word(2), word(3));
  }
}

// --- launches ---

// Blocks for `work` items, `each` per block, but no more than fill the GPU several times.
unsigned blocks_for(std::int64_t work, std::int64_t each, const cuda::Launch& launch) {
  const std::int64_t most = std::int64_t{launch.multiprocessors} * 32, blocks = ceil_div(work, each);
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

bool eights_aligned(const void* codes, std::int64_t stride_bytes) {
  return reinterpret_cast<std::uintptr_t>(codes) % 8 == 0 && stride_bytes % 8 == 0;
}

int tile(const TileJob& job, const cuda::Launch& launch) {
  const TilePiece& piece = job.piece;
  const auto stream = static_cast<cudaStream_t>(launch.stream);
  const std::int64_t items = Items(piece).count;
  if (items == 0) return cudaSuccess;
  const unsigned blocks = blocks_for(items, kThreads / kWarp, launch);
  const std::int64_t bytes = row_bytes(piece.format, piece.k);
  const bool aligned = eights_aligned(job.codes, piece.stride_bytes);
  switch (piece.format) {
    case Format::i2:
      tile_rows<Format::i2><<<blocks, kThreads, 0, stream>>>(job, bytes, aligned, cuda::report_of(launch));
      break;
    case Format::b3:
      tile_rows<Format::b3><<<blocks, kThreads, 0, stream>>>(job, bytes, aligned, cuda::report_of(launch));
      break;
    case Format::s8: tile_wide<MmaWeights<8>><<<blocks, kThreads, 0, stream>>>(job); break;
    case Format::s4: tile_wide<MmaWeights<4>><<<blocks, kThreads, 0, stream>>>(job); break;
    default: return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

}  // namespace

constinit const CudaTiling cuda_tile = {tile};

}  // namespace tern::dot
