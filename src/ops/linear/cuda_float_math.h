// Building blocks of linear's float modes on tensor cores: matrix instructions, what a lane reads of tokens and
// weights, and how sums are folded. For .cu files only.
#pragma once

#include "ops/linear/cuda_job.h"
#include "ops/linear/cuda_ptx.h"
#include "ops/linear/cuda_serves.h"

namespace tern::linear {
namespace {

// Sizes that launchers and selection share.
using float_modes::flush_of, float_modes::unit_of;
using float_modes::kMaxUnits, float_modes::kMinUnit;
using float_modes::kStepColumns, float_modes::kTileColumns, float_modes::kTileRows, float_modes::kTileTokens;

// --- matrix instructions: 16 rows, 8 tokens ---

// Widens two bytes of an operand to bf16 or f16. A trit in the two highest bits is twice its value in both types.
//     15 14 | 13 .. 0      01: 0x4000 is 2.0      11: 0xC000 is -2.0      00: 0
__device__ inline unsigned low_halves(unsigned bytes) { return __byte_perm(bytes, 0, 0x1404); }
__device__ inline unsigned high_halves(unsigned bytes) { return __byte_perm(bytes, 0, 0x3424); }

template <class E>
__device__ void mma_16_columns(float (&c)[4], const unsigned (&a)[4], uint2 b);

template <>
__device__ inline void mma_16_columns<cuda::Bf16>(float (&c)[4], const unsigned (&a)[4], uint2 b) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
#endif
}
template <>
__device__ inline void mma_16_columns<cuda::F16>(float (&c)[4], const unsigned (&a)[4], uint2 b) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b.x));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[2]), "r"(a[3]), "r"(b.y));
#endif
}

__device__ inline void mma_32_columns(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  const auto eight_rows = [](int& c0, int& c1, unsigned rows, unsigned tokens) {
    asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+r"(c0), "+r"(c1)
        : "r"(rows), "r"(tokens));
  };
  eight_rows(c[0], c[1], a[0], b0);
  eight_rows(c[2], c[3], a[1], b0);
  eight_rows(c[0], c[1], a[2], b1);
  eight_rows(c[2], c[3], a[3], b1);
#endif
}

// --- tokens ---
//
// quad(step, half, j) returns, to lane 4g + t, the four elements of token 8j + g in columns 32 * step + 16 * half + 4t
// and up. Tensor cores number the columns differently, but weights and tokens in the same way.

// bf16 and f16. A sum is twice the true one.
template <class E>
struct HalfMath {
  using W = Trits;
  using Sum = float;
  using Quad = uint2;
  static constexpr int kElementBytes = 2;
  static constexpr float kUnit = 0.5F;  // of a sum
  static __device__ float widen(float sum) { return sum; }

  template <int kRowTiles, int kTokenTiles, class Quads>
  static __device__ void add_step(float (&sums)[kRowTiles][kTokenTiles][4], const LaneTile<W> (&tiles)[kRowTiles],
                                  int step, const Quads& quad) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Quad x[kTokenTiles];
#pragma unroll
      for (int j = 0; j < kTokenTiles; ++j) x[j] = quad(step, half, j);
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        unsigned bytes[4];
        tiles[r].operand(bytes, step);
        const unsigned upper = bytes[2 * half], lower = bytes[2 * half + 1];  // rows g, rows g + 8
        const unsigned a[4] = {low_halves(upper), low_halves(lower), high_halves(upper), high_halves(lower)};
#pragma unroll
        for (int j = 0; j < kTokenTiles; ++j) mma_16_columns<E>(sums[r][j], a, x[j]);
      }
    }
  }
};

// int8. A sum is W::kUnit times the true one. It is exact, also as an f32: a flush has at most 128 columns, and its sum
// is at most 128 * 128 * 128, which is 2^21.
template <class W_>
struct Int8Math {
  using W = W_;
  using Sum = int;
  using Quad = unsigned;
  static constexpr int kElementBytes = 1;
  static constexpr float kUnit = 1.0F / W::kUnit;
  static __device__ float widen(int sum) { return __int2float_rn(sum); }

  template <int kRowTiles, int kTokenTiles, class Quads>
  static __device__ void add_step(int (&sums)[kRowTiles][kTokenTiles][4], const LaneTile<W> (&tiles)[kRowTiles],
                                  int step, const Quads& quad) {
    Quad x[2][kTokenTiles];
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int j = 0; j < kTokenTiles; ++j) x[half][j] = quad(step, half, j);
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      unsigned a[4];
      tiles[r].operand(a, step);
#pragma unroll
      for (int j = 0; j < kTokenTiles; ++j) mma_32_columns(sums[r][j], a, x[0][j], x[1][j]);
    }
  }
};

// --- weights ---

// How f32 sums are folded (cuda_float_kernels.h): kFlush columns are one chain of matrix instructions.
template <int kFlush_, bool kGroups_>
struct Fold {
  static constexpr int kFlush = kFlush_;
  static constexpr bool kGroups = kGroups_;
  static constexpr int kFlushes = kTileColumns / kFlush;  // of a tile
};

// A lane's part of a column tile and, with group scales, those of rows g and g + 8.
template <class W, class F, int kRowTiles>
struct Weights {
  LaneTile<W> tiles[kRowTiles];
  float scales[F::kGroups ? F::kFlushes : 1][kRowTiles][2];
};

__device__ inline uint4 load_once(const uint4* from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

// Adds a column tile to f32 sums.
template <class Math, class F, int kRowTiles, int kTokenTiles, class Quads>
__device__ void add_tile(float (&to)[kRowTiles][kTokenTiles][4], const Weights<typename Math::W, F, kRowTiles>& weights,
                         const Quads& quad) {
  constexpr int kSteps = F::kFlush / kStepColumns;
#pragma unroll
  for (int flush = 0; flush < F::kFlushes; ++flush) {
    typename Math::Sum sums[kRowTiles][kTokenTiles][4] = {};
#pragma unroll
    for (int step = flush * kSteps; step < (flush + 1) * kSteps; ++step)
      Math::add_step(sums, weights.tiles, step, quad);
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int j = 0; j < kTokenTiles; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float sum = Math::widen(sums[r][j][i]);
          float& at = to[r][j][i];
          if constexpr (F::kGroups)
            at = __fmaf_rn(sum, weights.scales[flush][r][i / 2], at);
          else
            at = __fadd_rn(at, sum);
        }
  }
}

// --- memory ---

// Starts a copy of 16 bytes to shared memory; writes zeros if not `there`.
__device__ inline void copy_16_async(void* to, const void* from, bool there) {
#if __CUDA_ARCH__ >= 800
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(there ? 16 : 0) : "memory");
#endif
}
__device__ inline void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int kMayBePending>
__device__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kMayBePending) : "memory");
#endif
}

}  // namespace
}  // namespace tern::linear
