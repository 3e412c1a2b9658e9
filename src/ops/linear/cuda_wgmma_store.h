// The epilogue of the prefill kernel: from a warpgroup's sums in registers to y, through a staging area in shared
// memory that turns columns of y into rows. For .cu files only.
//
// fast   y of 2 bytes that the copy engine can store: finished in registers, stored by boxes of 64 rows x 16 tokens; a
//        residual is loaded by the same boxes
// plain  all else: the bare sums are staged, and then finished in the order of y
#pragma once

#include "ops/linear/cuda_hopper.h"
#include "ops/linear/cuda_job.h"

namespace tern::linear {
namespace {

constexpr int kGroupThreads = 128;  // a warpgroup
constexpr int kGroupRows = 64;      // rows of one product
constexpr int kBoxTokens = 16;
constexpr int kBoxBytes = kBoxTokens * kGroupRows * 2;

// A token's scale, for quotients of sums that are W::kUnit times a dot product. kUnit is a power of two, so it causes
// no rounding.
struct TokenTerms {
  float s, reciprocal;  // W::kUnit * s, 1 / s / W::kUnit
};
__device__ inline bool corrects(float scale) { return scale >= 0x1p-60F && scale <= 0x1p60F; }
// For a scale for which corrects() is true: then quick_reciprocal() is rounded correctly.
template <class W>
__device__ TokenTerms token_terms(float scale) {
  return {__fmul_rn(scale, W::kUnit), __fmul_rn(quick_reciprocal(scale), 1.0F / W::kUnit)};
}
// Quotient::of(W::dot_of(sum)), for a scale for which corrects() is true.
__device__ inline float quotient_of(int sum, float s, float reciprocal) {
  const float t = __int2float_rn(sum);
  float q = __fmul_rn(t, reciprocal);
  q = __fmaf_rn(__fmaf_rn(-q, s, t), reciprocal, q);
  return __fmaf_rn(__fmaf_rn(-q, s, t), reciprocal, q);
}

// Offset in a box of 2-byte elements, where a token's 64 rows are 128 bytes and their 16-byte piece p is at p ^ (token
// % 8). It is that of the row which a lane stores or loads of four 8 x 8 matrices: rows 0 to 7 and 8 to 15 of the
// warp's sixteen, for tokens 0 to 7, then for tokens 8 to 15.
__host__ __device__ constexpr unsigned box_offset(int warp, int lane) {
  const int token = 8 * (lane / 16) + lane % 8, piece = 2 * warp + lane / 8 % 2;
  return static_cast<unsigned>(token * 128 + (piece ^ token % 8) * 16);
}
// The place of a staged sum of the plain path. The exclusive or spreads the four tokens that a warp writes at once over
// the banks.
__host__ __device__ constexpr int sum_offset(int token, int row) {
  return token * kGroupRows + (row ^ (token / 2 % 4 * 8));
}

__device__ inline unsigned pack_bf16(float low, float high) {  // NaN is 0x7FFF, as to_bf16() makes it
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
__device__ inline unsigned pack_f16(float low, float high) {
  unsigned both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

// The staging area of a warpgroup: buffers taken in turn, so that one is filled while others are being stored. A tile
// begins with the first.
struct Staging {
  std::byte* memory;
  int buffer_bytes;
  unsigned residual_barriers;  // one for each buffer
  unsigned parities = 0;       // of the barriers, a bit each

  [[nodiscard]] __device__ unsigned address(unsigned buffer) const {
    return hopper::shared_address(memory) + buffer * buffer_bytes;
  }
  __device__ void wait_residual(unsigned buffer) {
    hopper::wait(residual_barriers + 8 * buffer, parities >> buffer & 1U);
    parities ^= 1U << buffer;
  }
};

// What the epilogue of a warpgroup's part of a tile needs.
struct StoreJob {
  const MatrixJob& matrix;
  const CUtensorMap* y;
  const CUtensorMap* residual;  // null: none, or it is not loaded by boxes
  const float* x_scales;        // null where every y is i32
  const TokenTerms* terms;      // of the tile's tokens
  const RowTerms* row_terms;    // of the warpgroup's rows
  int number;                   // of the warpgroup's barrier
  int thread;                   // of the warpgroup
  int m;
  int row, token;  // the first

  __device__ void sync() const { hopper::sync_threads(number, kGroupThreads); }
};

// Divides a tile into parts of kPart tokens by 64 rows; a buffer holds one part.
template <int kTokens, int kPart>
struct Parts {
  static constexpr int kPerBlock = kTokens / kPart;
  static __device__ int row(const StoreJob& job, int part) { return job.row + part / kPerBlock * kGroupRows; }
  static __device__ int token(const StoreJob& job, int part) { return job.token + part % kPerBlock * kPart; }
};

// Called by one thread when the buffer is free: loads a part's residual.
template <int kTokens, int kPart>
__device__ void load_residual(const StoreJob& job, const Staging& staging, unsigned buffer, int part) {
  using P = Parts<kTokens, kPart>;
  if (P::row(job, part) >= job.matrix.n) return;
  const unsigned barrier = staging.residual_barriers + 8 * buffer;
  hopper::arrive_and_expect(barrier, kPart / kBoxTokens * kBoxBytes);
#pragma unroll 1
  for (int i = 0; i < kPart / kBoxTokens; ++i)
    hopper::load_box(staging.address(buffer) + i * kBoxBytes, job.residual, P::row(job, part),
                     P::token(job, part) + i * kBoxTokens, barrier);
}

// Finishes sixteen tokens of a warp's sixteen rows, eight sums per thread, and stages them. kBare: bf16 without
// activation and residual, so that nothing branches and boxes overlap.
template <bool kBare>
__device__ void stage_box(const StoreJob& job, const RowTerms (&rows)[2], const int* sums, int token,
                          unsigned address) {
  float t[8];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    // Two neighbouring tokens: s, reciprocal, s, reciprocal.
    const float4 terms = *reinterpret_cast<const float4*>(job.terms + token + 8 * half + 2 * (job.thread % 4));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = 4 * half + i;
      t[at] = i % 2 == 0 ? quotient_of(sums[at], terms.x, terms.y) : quotient_of(sums[at], terms.z, terms.w);
      t[at] = __fmul_rn(t[at], rows[i / 2].scale);
      t[at] = __fadd_rn(t[at], rows[i / 2].bias);  // -0 where there is none
    }
  }
  if (!kBare && job.matrix.squared_relu) {
#pragma unroll
    for (float& v : t) {
      v = v < 0 ? 0.0F : v;
      v = __fmul_rn(v, v);
    }
  }
  const bool half_floats = !kBare && job.matrix.y_dtype == DType::f16;
  if (!kBare && job.residual != nullptr) {
    unsigned more[4];
    hopper::load_transposed(address, more);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const auto bits = static_cast<std::uint16_t>(more[i / 2] >> (16 * (i % 2)));
      t[i] = __fadd_rn(t[i], half_floats ? cuda::F16::widen(bits) : cuda::Bf16::widen(bits));
    }
  }
  unsigned packed[4];
  if (half_floats) {
#pragma unroll
    for (int i = 0; i < 4; ++i) packed[i] = pack_f16(t[2 * i], t[2 * i + 1]);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) packed[i] = pack_bf16(t[2 * i], t[2 * i + 1]);
  }
  hopper::store_transposed(address, packed);
}

// On entry the terms are in shared memory, the buffers are free, and the residuals of the first parts are being loaded
// into them.
template <bool kBare, int kBlocks, int kTokens, int kPart, int kBuffers>
__device__ void store_fast(const StoreJob& job, const int (&sums)[kBlocks][kTokens / 2], Staging& staging) {
  using P = Parts<kTokens, kPart>;
  constexpr int kParts = kBlocks * P::kPerBlock;
  const int warp = job.thread / kWarp, lane = job.thread % kWarp;
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const int row = P::row(job, part), token = P::token(job, part);
    if (row >= job.matrix.n) break;
    const unsigned buffer = part % kBuffers, to = staging.address(buffer);
    if (part >= kBuffers) {
      if (job.thread == 0) hopper::wait_stores_read<kBuffers - 1>();  // this buffer's are the oldest
      job.sync();
    }
    if (!kBare && job.residual != nullptr) staging.wait_residual(buffer);
    const RowTerms* at = job.row_terms + part / P::kPerBlock * kGroupRows + warp * 16 + lane / 4;
    const RowTerms rows[2] = {at[0], at[8]};
#pragma unroll
    for (int i = 0; i < kPart / kBoxTokens; ++i) {
      const int first = part % P::kPerBlock * kPart + i * kBoxTokens;  // token of the tile
      stage_box<kBare>(job, rows, &sums[part / P::kPerBlock][first / 2], first,
                       to + box_offset(warp, lane) + i * kBoxBytes);
    }
    hopper::fence_for_copies();
    job.sync();
    if (job.thread == 0) {
#pragma unroll 1
      for (int i = 0; i < kPart / kBoxTokens && token + i * kBoxTokens < job.m; ++i)
        hopper::store_box(job.y, row, token + i * kBoxTokens, to + i * kBoxBytes);
      hopper::store_group();
      if (!kBare && job.residual != nullptr && part + kBuffers < kParts) {
        hopper::wait_stores_read<0>();
        load_residual<kTokens, kPart>(job, staging, buffer, part + kBuffers);
      }
    }
  }
}

// Parts have half as many tokens here, since sums have 4 bytes. A thread finishes elements of one row. On entry the
// terms are in shared memory, unless a scale needs a division, and the staging area is free.
template <class W, int kBlocks, int kTokens, int kPart_>
__device__ void store_plain(const StoreJob& job, const int (&sums)[kBlocks][kTokens / 2], const Staging& staging,
                            bool divides) {
  constexpr int kPart = kPart_ / 2, kTokenStep = kGroupThreads / kGroupRows;
  using P = Parts<kTokens, kPart>;
  auto* const staged = reinterpret_cast<int*>(staging.memory);
  const int warp = job.thread / kWarp, lane = job.thread % kWarp, in_block = job.thread % kGroupRows;
  const int mine = sum_offset(2 * (lane % 4), 16 * warp + lane / 4);
#pragma unroll 1
  for (int part = 0; part < kBlocks * P::kPerBlock; ++part) {
    const int row = P::row(job, part), first = P::token(job, part), n = row + in_block;
    if (row >= job.matrix.n) break;
#pragma unroll
    for (int at = 0; at < kBlocks * kTokens / 2; ++at) {  // registers cannot be indexed at run time
      const int i = at % (kPart / 2);                     // element of the part: see product()
      if (at / (kPart / 2) == part)
        staged[(mine ^ i % 4 / 2 * 8) + (i / 4 * 8 + i % 2) * kGroupRows] =
            sums[at / (kTokens / 2)][at % (kTokens / 2)];
    }
    job.sync();
    const int tokens = n >= job.matrix.n ? 0 : job.m - first < kPart ? job.m - first : kPart;
    const RowTerms terms = tokens > 0 ? row_terms(job.matrix, n) : RowTerms{};
    int at = job.thread / kGroupRows;
    if (divides && job.matrix.y_dtype != DType::i32) {
#pragma unroll 1
      for (; at < tokens; at += kTokenStep)
        store_result(job.matrix, terms, Quotient(job.x_scales[first + at]), first + at, n,
                     W::dot_of(staged[sum_offset(at, in_block)]));
    } else {
#pragma unroll 4
      for (; at < tokens; at += kTokenStep) {
        const int sum = staged[sum_offset(at, in_block)];
        if (job.matrix.y_dtype == DType::i32) {
          reinterpret_cast<std::int32_t*>(job.matrix.y)[(first + at) * job.matrix.y_stride + n] = W::dot_of(sum);
        } else {
          const TokenTerms token = job.terms[first + at - job.token];
          store_y(job.matrix, first + at, n, activated(job.matrix, terms, quotient_of(sum, token.s, token.reciprocal)));
        }
      }
    }
    hopper::fence_for_copies();  // the copy engine may load a residual here next
    job.sync();
  }
}

}  // namespace
}  // namespace tern::linear
