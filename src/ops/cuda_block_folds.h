// Reductions over n terms by one thread block, written for readability: the cuda_simple kernels use them. For .cu
// files only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tern::cuda {
namespace {

constexpr int kThreads = 256;  // one per quad of a 1,024-element block of the sum

// The sum of term(i) for i < n, in the order of docs/numerics.md. Every thread of the block gets it.
template <class Term>
__device__ double ordered_sum(std::int64_t n, Term term) {
  __shared__ double quads[kThreads], total;
  const int thread = static_cast<int>(threadIdx.x);
  double levels[48];  // thread 0 only: level i is the sum of 2^i blocks if bit i of `blocks` is set
  std::int64_t blocks = 0;
  for (std::int64_t start = 0; start < n; start += 1024, ++blocks) {
    double a[4] = {};
    for (int j = 0; j < 4; ++j)
      if (const std::int64_t i = start + 4 * thread + j; i < n) a[j] = term(i);
    quads[thread] = __dadd_rn(0.0, __dadd_rn(__dadd_rn(a[0], a[1]), __dadd_rn(a[2], a[3])));
    __syncthreads();
    if (thread < 32)  // each lane adds its 8 quads; the 0.0 above is the lane's initial value
      for (int j = 1; j < 8; ++j) quads[thread] = __dadd_rn(quads[thread], quads[thread + 32 * j]);
    __syncthreads();
    for (int half = 16; half > 0; half /= 2) {
      if (thread < half) quads[thread] = __dadd_rn(quads[thread], quads[thread + half]);
      __syncthreads();
    }
    if (thread == 0) {
      double sum = quads[0];
      int level = 0;
      for (; (blocks >> level & 1) != 0; ++level) sum = __dadd_rn(levels[level], sum);
      levels[level] = sum;
    }
    __syncthreads();
  }
  if (thread == 0) {
    double sum = 0;  // a block without a partner moves up a level
    for (int level = 0; blocks >> level != 0; ++level)
      if ((blocks >> level & 1) != 0) sum = __dadd_rn(levels[level], sum);
    total = sum;
  }
  __syncthreads();
  const double sum = total;
  __syncthreads();
  return sum;
}

// The largest of 0 and every term(i). Every thread of the block gets it.
template <class T, class Term>
__device__ T largest(std::int64_t n, Term term) {
  __shared__ T top[kThreads];
  const unsigned thread = threadIdx.x;
  T mine = 0;
  for (std::int64_t i = thread; i < n; i += kThreads)
    if (const T v = term(i); v > mine) mine = v;
  top[thread] = mine;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half && top[thread + half] > top[thread]) top[thread] = top[thread + half];
  }
  __syncthreads();
  const T all = top[0];
  __syncthreads();
  return all;
}

}  // namespace
}  // namespace tern::cuda
