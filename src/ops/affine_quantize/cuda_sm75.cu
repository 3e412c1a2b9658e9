// affine_quantize for every GPU from sm_75: limited by memory, for every granularity, format, layout and alignment.
#include "ops/affine/cuda_lines.h"
#include "ops/affine/cuda_quotient.h"
#include "ops/affine_quantize/affine_quantize.h"

namespace tern::affine_quantize {
namespace {

using affine::kElems;
using affine::kThreads;
using affine::kVectors;

struct Job {
  affine::Walk walk;
  const void* x;
  std::uint8_t* codes;
  bool reciprocal, saturate;
};

// What the codes of some elements need. A sum with 1.5 * 2^23 (2^52) rounds to an integer, in the lowest bits.
template <class E, class Math>
struct By {
  affine::Quotient<Math> quotient;
  Math low, high;
  unsigned zero;

  __device__ By(const Job& job, std::int64_t index) : By(job, index, affine::Qparam<E, Math>(job.walk, index)) {}
  __device__ unsigned code(Math x) const {
    Math t = quotient(x);
    t = t > low ? t : low;
    t = t < high ? t : high;
    if constexpr (sizeof(Math) == 4)
      return __float_as_uint(t + 0x1.8p23F) + zero;
    else
      return static_cast<unsigned>(__double2loint(t + 0x1.8p52)) + zero;
  }

 private:
  __device__ By(const Job& job, std::int64_t index, const affine::Qparam<E, Math>& given)
      : quotient(given.scale, job.reciprocal),
        low(static_cast<Math>(job.walk.q_min - given.zero)),
        high(static_cast<Math>(job.walk.q_max - given.zero)),
        zero(static_cast<unsigned>(given.zero)) {
    if (!quotient.usable()) job.walk.report(cuda::kInvalidScale, index);
  }
};

template <class E, class Math>
__device__ Math value_of(const Job& job, typename E::Raw raw) {
  const typename E::Math v = E::widen(raw);
  return job.saturate ? static_cast<Math>(cuda::saturated<E>(v)) : static_cast<Math>(v);
}

template <class E>
__device__ void check_finite(const Job& job, const affine::Tile& tile, int column,
                             const typename E::Raw (&raw)[kElems<E>]) {
  bool all = true;
#pragma unroll
  for (int j = 0; j < kElems<E>; ++j) all = all && cuda::finite(E::widen(raw[j]));
  if (all || job.saturate) return;
  for (int j = 0; j < kElems<E>; ++j)
    if (!cuda::finite(E::widen(raw[j]))) {
      job.walk.report(cuda::kNonFinite, tile.line * job.walk.lines.k + tile.first_column + column + j);
      return;
    }
}

template <class E, class Math>
__global__ void __launch_bounds__(kThreads) quantize(const Job job) {
  const affine::Walk& walk = job.walk;
  const affine::Tile tile(walk, affine::kTile<E>);
  const auto* x = static_cast<const typename E::Raw*>(job.x) + walk.lines.offset_of(tile.line);
  std::uint8_t* codes = job.codes + tile.line * walk.lines.code_bytes;

  alignas(16) typename E::Raw raw[kVectors][kElems<E>];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = (i * kThreads + static_cast<int>(threadIdx.x)) * kElems<E>;
    const int n = tile.count(column, kElems<E>);
    affine::read_floats<E>(walk, x, tile.first_column + column, n, raw[i]);
  }
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = (i * kThreads + static_cast<int>(threadIdx.x)) * kElems<E>;
    const int n = tile.count(column, kElems<E>);
    if (n == 0) return;
    check_finite<E>(job, tile, column, raw[i]);
    unsigned code[kElems<E>];
    if (walk.one_each) {
      const By<E, Math> by(job, tile.scale_of(walk, column));
#pragma unroll
      for (int j = 0; j < kElems<E>; ++j) code[j] = by.code(value_of<E, Math>(job, raw[i][j]));
    } else {
#pragma unroll
      for (int j = 0; j < kElems<E>; ++j)
        code[j] = j < n ? By<E, Math>(job, tile.scale_of(walk, column + j)).code(value_of<E, Math>(job, raw[i][j])) : 0;
    }
    if (n < kElems<E>) {  // padding is 0
#pragma unroll
      for (int j = 0; j < kElems<E>; ++j) code[j] = j < n ? code[j] : 0;
    }
    unsigned words[kElems<E> / 4];
#pragma unroll
    for (int w = 0; w < kElems<E> / 4; ++w)
      words[w] = __byte_perm(__byte_perm(code[4 * w], code[4 * w + 1], 0x0040),
                             __byte_perm(code[4 * w + 2], code[4 * w + 3], 0x0040), 0x5410);
    affine::write_codes(walk, codes + (tile.first_column + column) * walk.bits / 8, n, words);
  }
}

std::size_t workspace_bytes(const AffineQuantize::Problem&) { return 0; }

template <class E, class Math>
int launch_as(const Params& params, const cuda::Launch& launch) {
  const auto& p = params.problem;
  const Job job{.walk = affine::make_walk<E>(affine::words_of(p), params.qparams, params.q, params.x.data,
                                             params.x.strides, params.codes, params.code_row_bytes, launch),
                .x = params.x.data,
                .codes = params.codes,
                .reciprocal = p.math == AffineMath::reciprocal,
                .saturate = p.non_finite == NonFinite::saturate};
  const std::int64_t tiles = job.walk.lines.count * job.walk.tiles;
  quantize<E, Math><<<static_cast<unsigned>(tiles), kThreads, 0, static_cast<cudaStream_t>(launch.stream)>>>(job);
  return cudaGetLastError();
}

int launch(const Params& params, std::byte*, const cuda::Launch& launch) {
  return cuda::with_element(params.problem.dtype, [&]<class E>() -> int {
    if (params.problem.math == AffineMath::torch_cuda) return launch_as<E, double>(params, launch);
    return launch_as<E, typename E::Math>(params, launch);
  });
}

}  // namespace

extern const Cuda cuda_sm75;
const Cuda cuda_sm75{workspace_bytes, launch};

}  // namespace tern::affine_quantize
