// affine_dequantize for every GPU from sm_75: limited by memory, for every granularity, format, layout and alignment.
#include "ops/affine/cuda_lines.h"
#include "ops/affine_dequantize/affine_dequantize.h"

namespace tern::affine_dequantize {
namespace {

using affine::kElems;
using affine::kThreads;
using affine::kVectors;

struct Job {
  affine::Walk walk;
  const std::uint8_t* codes;
  void* y;
};

template <class E>
__device__ typename E::Raw value_of(int code, const affine::Qparam<E, typename E::Math>& by) {
  return E::round(static_cast<typename E::Math>(code - by.zero) * by.scale);
}

template <class E>
__global__ void __launch_bounds__(kThreads) dequantize(const Job job) {
  using Qparam = affine::Qparam<E, typename E::Math>;
  const affine::Walk& walk = job.walk;
  const affine::Tile tile(walk, affine::kTile<E>);
  auto* y = static_cast<typename E::Raw*>(job.y) + walk.lines.offset_of(tile.line);
  const std::uint8_t* codes = job.codes + tile.line * walk.lines.code_bytes;

  unsigned words[kVectors][kElems<E> / 4];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = (i * kThreads + static_cast<int>(threadIdx.x)) * kElems<E>;
    const int n = tile.count(column, kElems<E>);
    affine::read_codes(walk, codes + (tile.first_column + column) * walk.bits / 8, n, words[i]);
  }
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = (i * kThreads + static_cast<int>(threadIdx.x)) * kElems<E>;
    const int n = tile.count(column, kElems<E>);
    if (n == 0) return;
    const auto code = [&](int j) {
      return static_cast<int>((words[i][j / 4] >> (8 * (j % 4)) & 0xFFU) ^ static_cast<unsigned>(walk.sign)) -
             walk.sign;
    };
    alignas(16) typename E::Raw raw[kElems<E>];
    if (walk.one_each) {
      const Qparam by(walk, tile.scale_of(walk, column));
#pragma unroll
      for (int j = 0; j < kElems<E>; ++j) raw[j] = value_of<E>(code(j), by);
    } else {
#pragma unroll
      for (int j = 0; j < kElems<E>; ++j)
        raw[j] = j < n ? value_of<E>(code(j), Qparam(walk, tile.scale_of(walk, column + j))) : 0;
    }
    affine::write_floats<E>(walk, y, tile.first_column + column, n, raw);
  }
}

std::size_t workspace_bytes(const AffineDequantize::Problem&) { return 0; }

int launch(const Params& params, std::byte*, const cuda::Launch& launch) {
  const auto& p = params.problem;
  return cuda::with_element(p.dtype, [&]<class E>() -> int {
    const Job job{.walk = affine::make_walk<E>(affine::words_of(p), params.qparams, code_range(p.format), params.y.data,
                                               params.y.strides, params.codes, params.code_row_bytes, launch),
                  .codes = params.codes,
                  .y = params.y.data};
    const std::int64_t tiles = job.walk.lines.count * job.walk.tiles;
    dequantize<E><<<static_cast<unsigned>(tiles), kThreads, 0, static_cast<cudaStream_t>(launch.stream)>>>(job);
    return cudaGetLastError();
  });
}

}  // namespace

extern const Cuda cuda_sm75;
const Cuda cuda_sm75{workspace_bytes, launch};

}  // namespace tern::affine_dequantize
