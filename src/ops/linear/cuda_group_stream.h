// One int8 token by weights W with group scales on sm_90: weights and scales stream through shared memory. For .cu
// files only.
//
// Sums are added in the order of cuda_float_kernels.h, so results have the same bits. A block takes some row tiles.
// Their units, in the order of memory, are divided among its warps in equal stretches, regardless of rows:
//
//     row tile       r             r + 1
//     units     |0 1 2 3 4|  |0 1 2 3 4|  ...      a unit: some column tiles, one sum for each of 16 rows
//     warp       0 0 0 1 1    1 2 2 2 3
//
// Each warp has its own ring of slots. The copy engine fills a slot with some tiles and then the scales of their
// groups, which are contiguous in memory as well. All eight tokens of a matrix instruction are the same token.
#pragma once

#include <algorithm>

#include "ops/cuda_start.h"
#include "ops/linear/cuda_float_kernels.h"
#include "ops/linear/cuda_hopper.h"

namespace tern::linear {
namespace {

constexpr int kGroupWarps = 12;  // of a block, at most: 16 would leave rings of fewer than three slots
constexpr int kGroupBytes = static_cast<int>(TileMma::kRows) * 4;  // a group's scales of a row tile

// The fields that a block needs to request its first weights come first, in one cache line of the parameters.
struct GroupStreamJob {
  const uint4* first_tiles;  // of the first matrix
  const float* first_scales;
  std::int64_t first_end;                    // tiles of the first matrix
  std::int32_t scale_bytes;                  // per tile
  std::int32_t block_rows, longer_blocks;    // row tiles of a block; the first longer_blocks blocks have one more
  std::int32_t share[2], longer_shares[2];   // units of a warp (shorter, longer blocks); the first warps have one more
  std::int32_t slots;                        // of a warp's ring
  std::int32_t sums_at, tokens_at, ring_at;  // offsets in shared memory; barriers are at 0
  FloatJob f;
};

// F: Fold of the scales.
template <class W, class F>
struct GroupStream {
  static constexpr int kSlotTiles = 4 / W::kLoads;  // 2 KB
  static constexpr int kScalesAt = kSlotTiles * W::kTileBytes;
  static constexpr int kSlotBytes = kScalesAt + kSlotTiles * F::kFlushes * kGroupBytes;
  static constexpr int kSteps = F::kFlush / kStepColumns;

  const GroupStreamJob& stream;
  const FloatJob& f;
  std::byte* shared;
  int thread, warp, lane, threads;
  int first_row, rows;  // row tiles before this block's, and of this block
  int columns;          // tiles of a row

  __device__ explicit GroupStream(const GroupStreamJob& all)
      : stream(all), f(all.f), shared(launched_shared()), thread(static_cast<int>(threadIdx.x)) {
    warp = __shfl_sync(kAllLanes, thread / kWarp, 0);
    lane = thread % kWarp;
    threads = static_cast<int>(blockDim.x);
    const int block = static_cast<int>(blockIdx.x);
    first_row = block * stream.block_rows + min(block, stream.longer_blocks);
    rows = stream.block_rows + (block < stream.longer_blocks ? 1 : 0);
    columns = f.job.column_tiles;
  }

  // Parameters come from memory at their first use, which takes long. To load all lines at once, each warp reads one.
  __device__ void fetch_parameters() const {
    constexpr int kLine = 64;
    const auto* bytes = reinterpret_cast<const std::byte*>(&stream);
#pragma unroll 1
    for (int i = warp * kLine; i < static_cast<int>(sizeof stream); i += threads / kWarp * kLine)
      (void)opaque(*reinterpret_cast<const int*>(bytes + i));
  }

  // --- weights ---

  // A warp's stretch of the block: its first unit, first tile and number of tiles.
  struct Stretch {
    int unit, tile, tiles;
  };
  [[nodiscard]] __device__ int first_tile(int unit) const {
    const int row = unit / f.units;
    return row * columns + (unit - row * f.units) * f.unit;
  }
  [[nodiscard]] __device__ Stretch stretch() const {
    const int longer = rows > stream.block_rows ? 1 : 0, more = stream.longer_shares[longer];
    const int unit = warp * stream.share[longer] + min(warp, more);
    const int tile = first_tile(unit), end = first_tile(unit + stream.share[longer] + (warp < more ? 1 : 0));
    return {unit, tile, end - tile};
  }
  [[nodiscard]] __device__ unsigned barriers() const { return shared_address(shared) + warp * stream.slots * 8; }
  [[nodiscard]] __device__ std::byte* ring() const {
    return shared + stream.ring_at + warp * stream.slots * kSlotBytes;
  }

  // Called by one lane: loads tiles of the block and their scales into a slot. They are contiguous except where a
  // matrix ends.
  __device__ void request(int tile, int count, int slot) const {
    unsigned to = shared_address(ring()) + slot * kSlotBytes, scales_to = to + kScalesAt;
    const unsigned barrier = barriers() + slot * 8;
    hopper::arrive_and_expect(barrier, count * (W::kTileBytes + stream.scale_bytes));
    const auto load = [&](const uint4* tiles, const float* scales, std::int64_t at, int some) {
      hopper::load_bytes(to, tiles + at * LaneTile<W>::kStride, some * W::kTileBytes, barrier);
      hopper::load_bytes(scales_to, reinterpret_cast<const std::byte*>(scales) + at * stream.scale_bytes,
                         some * stream.scale_bytes, barrier);
    };
    std::int64_t at = std::int64_t{first_row} * columns + tile;
    if (at + count <= stream.first_end) return load(stream.first_tiles, stream.first_scales, at, count);
#pragma unroll 1
    for (int i = 0; count > 0; ++i) {
      const MatrixJob& matrix = f.job.matrices[i];
      const std::int64_t ends =
          std::int64_t{i + 1 < f.job.count ? f.job.matrices[i + 1].first_tile : f.job.row_tiles} * columns;
      if (at >= ends) continue;
      const int here = static_cast<int>(min(static_cast<std::int64_t>(count), ends - at));
      load(matrix.tiles, matrix.scales, at - std::int64_t{matrix.first_tile} * columns, here);
      to += here * W::kTileBytes;
      scales_to += here * stream.scale_bytes;
      at += here;
      count -= here;
    }
  }
  __device__ void request_slot(const Stretch& own, int done, int slot) const {
    request(own.tile + done, min(kSlotTiles, own.tiles - done), slot);
  }
  // Called by one lane: requests as much as the ring has room for.
  __device__ void fill_ring(const Stretch& own) const {
#pragma unroll 1
    for (int i = 0; i < stream.slots; ++i) hopper::barrier_init(barriers() + i * 8, 1);
    hopper::barrier_init_done();
#pragma unroll 1
    for (int slot = 0; slot < stream.slots && slot * kSlotTiles < own.tiles; ++slot)
      request_slot(own, slot * kSlotTiles, slot);
  }

  // --- sums ---

  // The lane's sums of rows lane / 4 and lane / 4 + 8.
  struct Sums {
    float upper = 0, lower = 0;
  };
  // Adds a column tile. tokens: shared address of the lane's part of the tile's columns; scales: the lane's scales of
  // the tile's first group; step_1, step_2: offsets from there to the scales of the second and the third of four
  // flushes.
  static __device__ void add(Sums& sums, const LaneTile<W>& weights, unsigned tokens, const float* scales, int step_1,
                             int step_2) {
    unsigned b[2][4];
    load_matrices(b[0], tokens);
    load_matrices(b[1], tokens + 4 * 16);
#pragma unroll
    for (int flush = 0; flush < F::kFlushes; ++flush) {
      const float* of = scales + (flush % 2 * step_1 + flush / 2 * step_2);
      const float upper = of[0], lower = of[8];
      int chains[2][4] = {};  // two, so that fewer products wait for each other
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        const int step = flush * kSteps + i;
        unsigned a[4];
        weights.operand(a, step);
        mma_32_columns(chains[i % 2], a, b[step / 2][step % 2 * 2], b[step / 2][step % 2 * 2 + 1]);
      }
      sums.upper = __fmaf_rn(__int2float_rn(chains[0][0] + chains[1][0]), upper, sums.upper);
      sums.lower = __fmaf_rn(__int2float_rn(chains[0][2] + chains[1][2]), lower, sums.lower);
    }
  }

  // Multiplies all tiles of a warp; fill_ring() has requested the first ones.
  __device__ void multiply(const Stretch& own) const {
    auto* unit_sums = reinterpret_cast<float*>(shared + stream.sums_at) + own.unit * kTileRows + lane / 4;
    const unsigned tokens = shared_address(shared + stream.tokens_at) + lane / 8 * 16;
    int column = own.tile % columns;
    int unit_left = min(f.unit, columns - column);
    // Distances between scales, in floats: from tile to tile, and between the flushes of a tile, which has four groups,
    // or two of two flushes each.
    const int scale_floats = stream.scale_bytes / 4, step_2 = scale_floats / 2;
    const int step_1 = scale_floats == 4 * kTileRows ? kTileRows : 0;
    Sums sums;
    int slot = 0, next = stream.slots * kSlotTiles;  // tiles requested
    unsigned parity = 0;
#pragma unroll 1
    for (int left = own.tiles; left > 0; left -= kSlotTiles) {
      const std::byte* const from = ring() + slot * kSlotBytes;
      hopper::wait(barriers() + slot * 8, parity);
      const auto* scales = reinterpret_cast<const float*>(from + kScalesAt) + lane / 4;
#pragma unroll
      for (int i = 0; i < kSlotTiles; ++i) {
        if (i >= left) break;
        add(sums, LaneTile<W>::at(reinterpret_cast<const uint4*>(from + i * W::kTileBytes) + lane),
            tokens + column * kTileColumns, scales, step_1, step_2);
        scales += scale_floats;
        ++column;
        if (--unit_left > 0) continue;
        if (lane % 4 == 0) {
          unit_sums[0] = sums.upper;
          unit_sums[8] = sums.lower;
        }
        sums = {};
        unit_sums += kTileRows;
        if (column == columns) column = 0;
        unit_left = min(f.unit, columns - column);
      }
      __syncwarp();  // all lanes have read the slot
      if (lane == 0 && next < own.tiles) request_slot(own, next, slot);
      next += kSlotTiles;
      if (++slot == stream.slots) {
        slot = 0;
        parity ^= 1U;
      }
    }
  }

  // --- the whole ---

  __device__ void run() const {
    let_next_start();
    fetch_parameters();
    const Stretch own = stretch();
    if (lane == 0) fill_ring(own);
    __syncwarp();  // barriers are initialized
    wait_for_previous();
#pragma unroll 1
    for (int at = thread * 16; at < f.x_columns; at += threads * 16)
      Sm80::copy16(shared + stream.tokens_at + at, f.x + at);
    if (f.s != nullptr) (void)opaque(__float_as_int(*f.s));  // prefetch for the epilogue
    using Rows = Results<Int8Math<W>, F>;
    const Rows first(f, first_row, min(thread, rows * kTileRows - 1));  // early, because its loads take long
    Sm80::wait_for_copies();
    __syncthreads();
    multiply(own);
    __syncthreads();
    const auto sum_of = [&](int row) {
      const auto* sums = reinterpret_cast<const float*>(shared + stream.sums_at) +
                         row / kTileRows * f.units * kTileRows + row % kTileRows;
      float sum = *sums;
      for (int u = 1; u < f.units; ++u) sum = __fadd_rn(sum, sums[u * kTileRows]);
      return sum;
    };
    if (thread < rows * kTileRows) first.store(0, sum_of(thread));
    for (int row = thread + threads; row < rows * kTileRows; row += threads)
      Rows(f, first_row, row).store(0, sum_of(row));
  }
};

template <class W, class F>
__global__ void __launch_bounds__(kWarp* kGroupWarps, 2)
    multiply_group_stream(const __grid_constant__ GroupStreamJob job) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  GroupStream<W, F>(job).run();
#endif
}

// --- launches ---

// Divides stream.f into blocks of at most `limit` bytes of shared memory and sets `warps` to the warps of a block.
// Returns the bytes that a block needs, or 0 where another kernel is better, the token is too long, or groups are
// longer than a tile.
template <class W, class F>
std::int64_t cut_group_stream(GroupStreamJob& stream, int& warps, std::int64_t limit, int multiprocessors) {
  using S = GroupStream<W, F>;
  constexpr std::int64_t kMostUnits = 384;  // of a block: 24 KB of sums
  const FloatJob& f = stream.f;
  const std::int64_t columns = f.job.column_tiles;
  // Every tile must have the scales of one, two or four whole groups, also the last tile of a row.
  const std::int64_t groups = f.last_group + 1, tile_groups = groups / columns;
  if (groups % columns != 0 || f.group * tile_groups != kTileColumns || tile_groups > F::kFlushes) return 0;
  // With so few row tiles, a block for each has all of them in flight at once.
  if (f.job.m != 1 || f.job.row_tiles <= 3 * std::int64_t{multiprocessors}) return 0;
  const std::int64_t blocks = std::max<std::int64_t>(multiprocessors, ceil_div(f.job.row_tiles, kMostUnits / f.units));
  stream.block_rows = static_cast<std::int32_t>(f.job.row_tiles / blocks);
  stream.longer_blocks = static_cast<std::int32_t>(f.job.row_tiles % blocks);
  stream.first_tiles = f.job.matrices[0].tiles;
  stream.first_scales = f.job.matrices[0].scales;
  stream.first_end = (f.job.count > 1 ? f.job.matrices[1].first_tile : f.job.row_tiles) * columns;
  stream.scale_bytes = static_cast<std::int32_t>(tile_groups * kGroupBytes);
  const auto up = [](std::int64_t bytes) { return static_cast<std::int32_t>(ceil_div(bytes, 128) * 128); };
  const std::int64_t sums_bytes = (stream.block_rows + 1) * std::int64_t{f.units} * kGroupBytes;
  // Uses half of the shared memory, so that the next kernel's blocks fit as well.
  const std::int64_t half = (limit + 1024) / 2 - 1024;
  const std::int64_t room = half - up(sums_bytes) - columns * kTileColumns - 1024;
  warps = static_cast<int>(std::min<std::int64_t>(room / (3 * S::kSlotBytes), kGroupWarps));
  if (warps < 4) return 0;
  stream.slots = static_cast<std::int32_t>(std::min<std::int64_t>(room / (warps * S::kSlotBytes), 8));
  for (int longer = 0; longer < 2; ++longer) {
    const std::int64_t units = (stream.block_rows + longer) * std::int64_t{f.units};
    stream.share[longer] = static_cast<std::int32_t>(units / warps);
    stream.longer_shares[longer] = static_cast<std::int32_t>(units % warps);
  }
  stream.sums_at = up(8 * warps * stream.slots);
  stream.tokens_at = stream.sums_at + up(sums_bytes);
  stream.ring_at = stream.tokens_at + static_cast<std::int32_t>(columns * kTileColumns);
  const std::int64_t bytes = stream.ring_at + std::int64_t{warps} * stream.slots * S::kSlotBytes;
  // Rounds up so that three blocks do not fit on a multiprocessor: this kernel's and the next one's are enough, and the
  // requests of a third would come too early.
  return std::max<std::int64_t>(bytes, up((limit + 1024) / 3 - 1024 + 1));
}

// Returns false where another kernel must take the problem; otherwise `code` is what the launch returned.
template <class W, class F>
bool launch_group_stream(const FloatJob& f, const cuda::Launch& launch, bool early_start, int& code) {
  const int limit = shared_limit(launch);
  int warps = 0;
  GroupStreamJob stream = {};
  stream.f = f;
  const std::int64_t shared_bytes = cut_group_stream<W, F>(stream, warps, limit, launch.multiprocessors);
  if (shared_bytes == 0) return false;
  const auto kernel = multiply_group_stream<W, F>;
  code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, limit);
  if (code == cudaSuccess) code = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100);
  if (code != cudaSuccess) return true;
  const std::int64_t blocks = stream.block_rows > 0 ? (f.job.row_tiles - stream.longer_blocks) / stream.block_rows : 0;
  code = cuda::start(kernel,
                     {.blocks = dim3(static_cast<unsigned>(blocks)),
                      .threads = dim3(static_cast<unsigned>(kWarp * warps)),
                      .shared_bytes = shared_bytes,
                      .dependent = early_start},
                     launch, stream);
  return true;
}

}  // namespace
}  // namespace tern::linear
