// Brings tokens to shared memory for linear's mma.sync kernels: int8 as the caller gave them, or floats quantized to
// token_i8, by each block for itself or by a kernel before. For .cu files only.
#pragma once

#include "base/checked.h"
#include "ops/activation_quantize/cuda_vectors.h"
#include "ops/linear/cuda_ptx.h"

namespace tern::linear {
namespace {

struct Tokens {
  const void* x;
  std::int64_t stride;  // elements
  const float* scales;  // of int8 tokens; null: every y is i32
  std::int32_t k;
  bool aligned;  // every token begins on a boundary of 16 bytes
  bool saturate;
  cuda::Report report;
};

// The element type of int8 tokens; the others are cuda::F32, F16 and Bf16.
struct Codes {
  using Raw = std::int8_t;
};

constexpr int kChunk = 16;  // bytes of a copy

// Threads of a block that work together, numbered from 0, and the number of the barrier that they share.
struct Team {
  int thread, threads;
  int barrier = 0;

  __device__ void sync() const { asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }
};

// --- int8 ---

// Fills 16 bytes of shared memory: copies the first `left`, sets the others to 0.
template <class Isa>
__device__ void copy_chunk(std::byte* to, const std::byte* from, int left, bool aligned) {
  if (aligned && left >= kChunk) {
    Isa::copy16(to, from);
  } else {
#pragma unroll 1
    for (int i = 0; i < kChunk; ++i) to[i] = i < left ? from[i] : std::byte{};
  }
}

// What a thread copies of a single token: every team.threads-th chunk.
struct TokenCopy {
  const std::byte* from;
  std::byte* to;
  int left;  // bytes to the end

  __device__ TokenCopy(const Tokens& tokens, Team team, std::int64_t token, std::byte* shared)
      : from(static_cast<const std::byte*>(tokens.x) + token * tokens.stride + team.thread * kChunk),
        to(shared + team.thread * kChunk),
        left(tokens.k - team.thread * kChunk) {}
  template <class Isa>
  __device__ void run(const Tokens& tokens, Team team) const {
#pragma unroll 1
    for (int done = 0; done < left; done += team.threads * kChunk)
      copy_chunk<Isa>(to + done, from + done, left - done, tokens.aligned);
  }
};

// Copies columns of some tokens. Token r goes to to + r * pitch, its chunk c to place c ^ (r % 8) within each eight, so
// that the same chunk of eight tokens is in different banks. Writes nothing beyond k, because the weights there are 0.
template <class Isa>
__device__ void copy_tokens(const Tokens& tokens, Team team, std::int64_t first_token, int count, int first_column,
                            int columns, std::byte* to, int pitch) {
  const int first = first_column / kChunk, bytes = tokens.k - first_column;
  const int chunks = min(columns / kChunk, (tokens.k + kChunk - 1) / kChunk - first);
  const auto* x = static_cast<const std::byte*>(tokens.x) + first_token * tokens.stride + first_column;
  int token = 0;
#pragma unroll 1
  for (int chunk = team.thread; chunks > 0; chunk += team.threads) {
    while (chunk >= chunks && token < count) {
      chunk -= chunks;
      ++token;
    }
    if (token >= count) break;
    copy_chunk<Isa>(to + token * pitch + (chunk ^ (token % 8)) * kChunk, x + token * tokens.stride + chunk * kChunk,
                    bytes - chunk * kChunk, tokens.aligned);
  }
}

// --- floats ---

namespace aq = activation_quantize;

template <class E>
__device__ void store_codes(std::byte* q, int vector, const aq::Words& words, float s) {
  unsigned quads[aq::kPerWord<E>];
#pragma unroll
  for (int i = 0; i < aq::kPerWord<E>; ++i) {
    const auto x = [&](int j) {
      j += 4 * i;
      return aq::value_of<E>(words.w[j / aq::kPerWord<E>], j % aq::kPerWord<E>);
    };
    quads[i] = aq::rounded(x(0), x(1), x(2), x(3), s);
  }
  std::byte* at = q + vector * aq::kVector<E>;
  if constexpr (aq::kPerWord<E> == 2)
    *reinterpret_cast<uint2*>(at) = make_uint2(quads[0], quads[1]);
  else
    *reinterpret_cast<unsigned*>(at) = quads[0];
}

// Returns the largest v of all threads to each of them. maxima has a word per warp.
__device__ inline unsigned team_max(Team team, unsigned* maxima, unsigned v) {
  v = aq::warp_max(v);
  const int lane = team.thread % aq::kWarp;
  if (lane == 0) maxima[team.thread / aq::kWarp] = v;
  team.sync();
  return aq::warp_max(lane < team.threads / aq::kWarp ? maxima[lane] : 0);
}

// Element i of a token, saturated; +0 from k on. If `reports`, reports an element that is not finite.
template <class E>
__device__ float x_at(const Tokens& tokens, std::int64_t token, int i, bool reports) {
  if (i >= tokens.k) return 0;
  const float v = E::widen(static_cast<const typename E::Raw*>(tokens.x)[token * tokens.stride + i]);
  if (reports && !cuda::finite(v)) tokens.report(cuda::kNonFinite, token * tokens.k + i);
  return cuda::saturated<E>(v);
}

// All threads of a team quantize one token to token_i8: write k codes, then zeros up to a whole chunk, and return s.
template <class E>
__device__ float quantize_any(const Tokens& tokens, Team team, std::int64_t token, bool reports, unsigned* maxima,
                              std::byte* q) {
  const int end = (tokens.k + kChunk - 1) / kChunk * kChunk;
  float most = 0;
#pragma unroll 1
  for (int i = team.thread; i < end; i += team.threads) most = fmaxf(most, fabsf(x_at<E>(tokens, token, i, reports)));
  const float s = aq::scale_of<cuda::F32>(team_max(team, maxima, __float_as_uint(most)));
#pragma unroll 1
  for (int i = team.thread; i < end; i += team.threads)
    q[i] = static_cast<std::byte>(aq::rounded(x_at<E>(tokens, token, i, false), 0, 0, 0, s));
  return s;
}

// Where a thread begins to read a token.
template <class E>
__device__ const typename E::Raw* first_vector(const Tokens& tokens, Team team, std::int64_t token) {
  return static_cast<const typename E::Raw*>(tokens.x) + token * tokens.stride + team.thread * aq::kVector<E>;
}

// The same, for vectors that are whole and aligned. The vectors that a thread reads last stay in its registers; those
// of a longer token are read again, from there backwards. x: first_vector().
template <class E>
__device__ float quantize_token(const Tokens& tokens, Team team, std::int64_t token, const typename E::Raw* x,
                                bool reports, unsigned* maxima, std::byte* q) {
  if (!tokens.aligned || tokens.k % aq::kVector<E> != 0)
    return quantize_any<E>(tokens, team, token, reports, maxima, q);
  constexpr int kHeld = 4;
  // A thread's vectors are team.threads apart and counted from its first one. Those from `real` to `all` are +0.
  const int real = tokens.k / aq::kVector<E> - team.thread;
  const int all = (tokens.k + kChunk - 1) / kChunk * kChunk / aq::kVector<E> - team.thread;
  aq::Words held[kHeld];
  int first = 0;
  const auto read = [&] {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int vector = first + i * team.threads;
      uint4 v = {};
      if (vector < real) v = load_written(x + vector * aq::kVector<E>);
      held[i] = {{v.x, v.y, v.z, v.w}};
    }
  };
  unsigned most = 0;
  for (;; first += kHeld * team.threads) {
    read();
#pragma unroll
    for (const aq::Words& words : held) most = aq::max_magnitudes<E>(words, most);
    if (first + kHeld * team.threads >= all) break;
  }
  most = team_max(team, maxima, aq::largest_of<E>(most));
  if (most >= aq::kInfinity<E>) {
    team.sync();  // all threads have read the maxima
    return quantize_any<E>(tokens, team, token, reports, maxima, q);
  }
  const float s = aq::scale_of<E>(most);
  q += team.thread * aq::kVector<E>;
  for (;;) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (first + i * team.threads < all) store_codes<E>(q, first + i * team.threads, held[i], s);
    first -= kHeld * team.threads;
    if (first < 0) break;
    read();
  }
  return s;
}

// Each block quantizes one token; rows of q are `pitch` bytes apart.
template <class E>
__global__ void __launch_bounds__(1024)
    quantize_tokens(const __grid_constant__ Tokens tokens, std::byte* q, int pitch, float* scales) {
  __shared__ unsigned maxima[1024 / aq::kWarp];
  let_next_start();
  const std::int64_t token = blockIdx.x;
  const Team all = {static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)};
  const auto* x = opaque(first_vector<E>(tokens, all, token));
  wait_for_previous();
  const float s = quantize_token<E>(tokens, all, token, x, !tokens.saturate, maxima, q + token * pitch);
  if (threadIdx.x == 0) scales[token] = s;
}

}  // namespace
}  // namespace tern::linear
