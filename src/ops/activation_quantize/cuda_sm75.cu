// activation_quantize for every GPU from sm_75. A token is read once and stays in the registers of a warp or a block;
// only tokens too long for that are read twice.
#include "base/checked.h"
#include "ops/activation_quantize/activation_quantize.h"
#include "ops/activation_quantize/cuda_vectors.h"
#include "ops/cuda_start.h"
#include "ops/cuda_words.h"

namespace tern::activation_quantize {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kMaxVectors = 4;  // in a thread's registers

// What the kernels get.
struct Job {
  const void* x;
  std::int64_t x_stride;
  std::int8_t* q;
  std::int64_t q_stride;
  float* scales;
  std::int32_t* sums;
  std::int64_t m, k;
  bool vectors_aligned;  // every token of x and q starts at a vector boundary
  bool saturate;
  cuda::Report report;
};

// --- vectors ---

// Loads a vector of a token. Elements from k on are +0, which changes neither a maximum nor a sum. kWhole: every vector
// is aligned and no vector reaches past k.
template <class E, bool kWhole>
__device__ Words load(const Job& job, const typename E::Raw* x, std::int64_t vector) {
  const std::int64_t first = vector * kVector<E>;
  if (kWhole ? first < job.k : job.vectors_aligned && first + kVector<E> <= job.k) {
    const uint4 v = __ldg(reinterpret_cast<const uint4*>(x + first));
    return {{v.x, v.y, v.z, v.w}};
  }
  Words words = {};
  if constexpr (!kWhole) {
#pragma unroll
    for (int i = 0; i < kVector<E>; ++i)
      if (first + i < job.k) {
        if constexpr (kPerWord<E> == 1)
          words.w[i] = __float_as_uint(x[first + i]);
        else
          words.w[i / 2] |= static_cast<unsigned>(x[first + i]) << (16 * (i % 2));
      }
  }
  return words;
}

template <class E, bool kWhole>
__device__ void store(const Job& job, std::int8_t* q, std::int64_t vector, const unsigned (&quads)[kPerWord<E>]) {
  const std::int64_t first = vector * kVector<E>;
  if (kWhole ? first < job.k : job.vectors_aligned && first + kVector<E> <= job.k) {
    if constexpr (kPerWord<E> == 2)
      *reinterpret_cast<uint2*>(q + first) = make_uint2(quads[0], quads[1]);
    else
      *reinterpret_cast<unsigned*>(q + first) = quads[0];
  } else if constexpr (!kWhole) {
#pragma unroll
    for (int i = 0; i < kVector<E>; ++i)
      if (first + i < job.k) q[first + i] = static_cast<std::int8_t>(quads[i / 4] >> (8 * (i % 4)));
  }
}

template <class E>
__device__ void report_non_finite(const Job& job, std::int64_t token, std::int64_t vector, const Words& words) {
#pragma unroll
  for (int i = 0; i < kVector<E>; ++i)
    if ((bits_of<E>(words.w[i / kPerWord<E>], i % kPerWord<E>) & kMagnitude<E>) >= kInfinity<E>)
      job.report(cuda::kNonFinite, token * job.k + vector * kVector<E> + i);
}

// Quantizes and stores a vector; returns sum plus its codes.
template <class E, bool kWhole>
__device__ int quantize_vector(const Job& job, std::int8_t* q, std::int64_t vector, const Words& words, float s,
                               int sum) {
  unsigned quads[kPerWord<E>];
#pragma unroll
  for (int i = 0; i < kPerWord<E>; ++i) {
    const auto x = [&](int j) {
      j += 4 * i;
      return value_of<E>(words.w[j / kPerWord<E>], j % kPerWord<E>);
    };
    quads[i] = rounded(x(0), x(1), x(2), x(3), s);
    sum = __dp4a(static_cast<int>(quads[i]), 0x01010101, sum);
  }
  store<E, kWhole>(job, q, vector, quads);
  return sum;
}

// --- reductions over the threads of a token: one warp, or all warps of a block ---

struct Shared {
  unsigned max[kMaxThreads / kWarp];
  int sum[kMaxThreads / kWarp];
};

__device__ int warp_sum(int v) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(kAllLanes, v);
#else
  for (int step = kWarp / 2; step > 0; step /= 2) v += __shfl_xor_sync(kAllLanes, v, step);
  return v;
#endif
}

// The maximum, in every thread.
__device__ unsigned token_max(Shared& shared, unsigned v) {
  v = warp_max(v);
  if (blockDim.x == kWarp) return v;
  const unsigned lane = threadIdx.x % kWarp;
  if (lane == 0) shared.max[threadIdx.x / kWarp] = v;
  __syncthreads();
  return warp_max(lane < blockDim.x / kWarp ? shared.max[lane] : 0);
}
// The sum, in the first warp.
__device__ int token_sum(Shared& shared, int v) {
  v = warp_sum(v);
  if (blockDim.x == kWarp) return v;
  const unsigned lane = threadIdx.x % kWarp;
  if (lane == 0) shared.sum[threadIdx.x / kWarp] = v;
  __syncthreads();
  if (threadIdx.x >= kWarp) return 0;
  return warp_sum(lane < blockDim.x / kWarp ? shared.sum[lane] : 0);
}

// --- kernels ---

// A block has blockDim.x threads for each of blockDim.y tokens; blockDim.y is 1 if a token has more than one warp.
// blockIdx.x and blockIdx.y together number the blocks.
__device__ std::int64_t this_token() {
  return (static_cast<std::int64_t>(blockIdx.y) * gridDim.x + blockIdx.x) * blockDim.y + threadIdx.y;
}

// From sm_90 on, a kernel may start before the previous one ends, if it is launched for that. Lets the next kernel
// start, then waits for the previous one.
__device__ void follow_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Vector i of a thread is the token's vector threadIdx.x + i * blockDim.x.
template <class E, int kVectors, bool kWhole>
__global__ void __launch_bounds__(kMaxThreads) quantize_held(const __grid_constant__ Job job) {
  __shared__ Shared shared;
  follow_previous();
  const std::int64_t token = this_token();
  if (token >= job.m) return;
  const auto* x = static_cast<const typename E::Raw*>(job.x) + token * job.x_stride;
  Words words[kVectors];
  const auto vector = [](int i) { return static_cast<std::int64_t>(threadIdx.x + i * blockDim.x); };
#pragma unroll
  for (int i = 0; i < kVectors; ++i) words[i] = load<E, kWhole>(job, x, vector(i));
  const auto largest = [&] {
    unsigned most = 0;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) most = max_magnitudes<E>(words[i], most);
    return token_max(shared, largest_of<E>(most));
  };
  unsigned magnitude = largest();
  if (magnitude >= kInfinity<E>) {  // the same in all threads of the token
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (!job.saturate) report_non_finite<E>(job, token, vector(i), words[i]);
      saturate<E>(words[i]);
    }
    if (blockDim.x > kWarp) __syncthreads();  // every warp has read the first maximum
    magnitude = largest();
  }
  const float s = scale_of<E>(magnitude);
  std::int8_t* q = job.q + token * job.q_stride;
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) sum = quantize_vector<E, kWhole>(job, q, vector(i), words[i], s, sum);
  sum = token_sum(shared, sum);
  if (threadIdx.x == 0) {
    job.scales[token] = s;
    job.sums[token] = sum;
  }
}

// A block reads a token twice: for its maximum, then, from a cache, for its codes.
template <class E>
__global__ void __launch_bounds__(kMaxThreads) quantize_long(const __grid_constant__ Job job) {
  __shared__ Shared shared;
  follow_previous();
  const std::int64_t token = this_token();
  if (token >= job.m) return;
  const auto* x = static_cast<const typename E::Raw*>(job.x) + token * job.x_stride;
  const std::int64_t vectors = ceil_div(job.k, kVector<E>);
  const auto not_finite = [](const Words& words) { return largest_of<E>(max_magnitudes<E>(words, 0)) >= kInfinity<E>; };
  unsigned most = 0;
#pragma unroll 4
  for (std::int64_t vector = threadIdx.x; vector < vectors; vector += blockDim.x) {
    Words words = load<E, false>(job, x, vector);
    if (not_finite(words)) {
      if (!job.saturate) report_non_finite<E>(job, token, vector, words);
      saturate<E>(words);
    }
    most = max_magnitudes<E>(words, most);
  }
  const float s = scale_of<E>(token_max(shared, largest_of<E>(most)));
  std::int8_t* q = job.q + token * job.q_stride;
  int sum = 0;
#pragma unroll 4
  for (std::int64_t vector = threadIdx.x; vector < vectors; vector += blockDim.x) {
    Words words = load<E, false>(job, x, vector);
    if (not_finite(words)) saturate<E>(words);
    sum = quantize_vector<E, false>(job, q, vector, words, s, sum);
  }
  sum = token_sum(shared, sum);
  if (threadIdx.x == 0) {
    job.scales[token] = s;
    job.sums[token] = sum;
  }
}

// --- launches ---

std::size_t workspace_bytes(const ActivationQuantize::Problem&) { return 0; }

// How the threads of a block share tokens.
struct Split {
  int threads;  // per token
  int vectors;  // per thread: 1, 2 or 4; 0: the token does not fit in registers
  int tokens;   // per block
};

// With few tokens, a thread per vector gives the lowest latency. With enough tokens to fill the GPU, more vectors per
// thread mean fewer threads that wait for each other.
Split split(std::int64_t m, std::int64_t vectors, int multiprocessors) {
  if (vectors > kMaxThreads * kMaxVectors) return {kMaxThreads, 0, 1};
  const bool many = m >= 4 * std::int64_t{multiprocessors};
  const auto needed = [vectors](int threads) { return static_cast<int>(ceil_div(vectors, threads)); };
  const auto rounded_up = [](int count) { return count <= 1 ? 1 : count == 2 ? 2 : kMaxVectors; };
  if (many && needed(kWarp) <= kMaxVectors) return {kWarp, rounded_up(needed(kWarp)), 8};
  const int each = many ? kMaxVectors : rounded_up(needed(kMaxThreads));
  const int warps = needed(each * kWarp);
  return {warps * kWarp, each, 1};
}

dim3 blocks_of(std::int64_t tokens, int each) {
  constexpr std::int64_t kMaxX = 0x7FFFFFFF;
  const std::int64_t blocks = ceil_div(tokens, each), x = blocks < kMaxX ? blocks : kMaxX;
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(ceil_div(blocks, x)));
}

// Whether the code that runs on this device has the wait of follow_previous().
bool follows_previous() {
  static const bool follows = [] {
    cudaFuncAttributes attributes = {};
    return cudaFuncGetAttributes(&attributes, quantize_long<cuda::F32>) == cudaSuccess && attributes.ptxVersion >= 90;
  }();
  return follows;
}

int launch_as(void (*kernel)(Job), dim3 blocks, dim3 threads, const Job& job, const cuda::Launch& launch) {
  return cuda::start(
      kernel, {.blocks = blocks, .threads = threads, .dependent = launch.dependent && follows_previous()}, launch, job);
}

template <class E, int kVectors>
int launch_held(const Job& job, const Split& split, const cuda::Launch& launch) {
  const bool whole = job.vectors_aligned && job.k % kVector<E> == 0;
  return launch_as(whole ? quantize_held<E, kVectors, true> : quantize_held<E, kVectors, false>,
                   blocks_of(job.m, split.tokens), dim3(split.threads, split.tokens), job, launch);
}

// Whether every token starts at a multiple of `boundary` bytes.
bool aligned(const void* data, std::int64_t stride_bytes, std::int64_t m, std::int64_t boundary) {
  return reinterpret_cast<std::uintptr_t>(data) % boundary == 0 && (m == 1 || stride_bytes % boundary == 0);
}

template <class E>
int launch_of(Job job, const cuda::Launch& launch) {
  constexpr int kElements = kVector<E>;
  job.vectors_aligned = aligned(job.x, job.x_stride * static_cast<std::int64_t>(sizeof(typename E::Raw)), job.m, 16) &&
                        aligned(job.q, job.q_stride, job.m, kElements);
  const Split s = split(job.m, ceil_div(job.k, kElements), launch.multiprocessors);
  switch (s.vectors) {
    case 1: return launch_held<E, 1>(job, s, launch);
    case 2: return launch_held<E, 2>(job, s, launch);
    case 4: return launch_held<E, 4>(job, s, launch);
    default: break;
  }
  return launch_as(quantize_long<E>, blocks_of(job.m, 1), dim3(s.threads), job, launch);
}

int launch(const Params& params, std::byte*, const cuda::Launch& launch) {
  const auto& p = params.problem;
  const Job job{.x = params.x,
                .x_stride = params.x_stride,
                .q = params.q,
                .q_stride = params.q_stride,
                .scales = params.scales,
                .sums = params.sums,
                .m = p.m,
                .k = p.k,
                .vectors_aligned = false,
                .saturate = p.non_finite == NonFinite::saturate,
                .report = cuda::report_of(launch)};
  switch (p.dtype) {
    case DType::f16: return launch_of<cuda::F16>(job, launch);
    case DType::bf16: return launch_of<cuda::Bf16>(job, launch);
    default: return launch_of<cuda::F32>(job, launch);
  }
}

}  // namespace

extern const Cuda cuda_sm75;
const Cuda cuda_sm75{workspace_bytes, launch};

}  // namespace tern::activation_quantize
