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
  unsigned signs;  // of four codes the highest bits, where they are signs
  int sign;        // one of them
};

// A byte put into the lowest bits of 2^23 is a float that much above it. Less `zero` it is code - zp: exact.
template <class E>
__device__ typename E::Math value_of(unsigned bytes, int j, float zero, typename E::Math scale) {
  const float above = __uint_as_float(__byte_perm(bytes, 0x4B000000U, 0x7650U + static_cast<unsigned>(j)));
  return static_cast<typename E::Math>(above - zero) * scale;
}

template <class E>
__global__ void __launch_bounds__(kThreads, 4) dequantize(const Job job) {
  using Math = typename E::Math;
  using Qparam = affine::Qparam<E, Math>;
  const affine::Walk& walk = job.walk;
  const affine::Tile<E> tile(walk);
  if (tile.rest == 0) return;
  void* y = affine::line_of(walk, tile, job.y, 0);
  const std::uint8_t* codes = job.codes + tile.line * walk.lines.code_bytes;

  affine::Codes<E> vectors[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i)
    vectors[i].read(codes, walk.codes, tile.first_column + tile.column(i), tile.count(tile.column(i)));
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = tile.column(i), n = tile.count(column);
    if (n == 0) return;
      // With their highest bit turned around, codes with a sign count from the lowest on.
#pragma unroll
    for (unsigned& word : vectors[i].w) word ^= job.signs;
    const auto zero_of = [&](const Qparam& by) { return 0x1p23F + static_cast<float>(job.sign + by.zero); };
    Math v[kElems<E>] = {};
    if (walk.one_each) {
      const Qparam by(walk, tile.scale_of(walk, column));
      const float zero = zero_of(by);
#pragma unroll
      for (int j = 0; j < kElems<E>; ++j) v[j] = value_of<E>(vectors[i].w[j / 4], j % 4, zero, by.scale);
    } else {
#pragma unroll
      for (int j = 0; j < kElems<E>; ++j) {
        if (j >= n) continue;
        const Qparam by(walk, tile.scale_of(walk, column + j));
        v[j] = value_of<E>(vectors[i].w[j / 4], j % 4, zero_of(by), by.scale);
      }
    }
    affine::Vector<E> out;
    out.round(v);
    out.write(y, walk.access[0], tile.first_column + column, n);
  }
}

std::size_t workspace_bytes(const AffineDequantize::Problem&) { return 0; }

int launch(const Params& params, std::byte*, const cuda::Launch& launch) {
  const auto& p = params.problem;
  return cuda::with_element(p.dtype, [&]<class E>() -> int {
    const auto lines = affine::make_lines(affine::words_of(p), params.y.strides, params.code_row_bytes);
    const CodeRange q = code_range(p.format);
    const int sign = q.min < 0 ? -q.min : 0;
    Job job{.walk = affine::make_walk<E>(lines, {params.y.data}, p.format, params.codes, launch),
            .codes = params.codes,
            .y = params.y.data,
            .signs = static_cast<unsigned>(sign) * 0x01010101U,
            .sign = sign};
    affine::give_qparams(job.walk, params.qparams, q);
    dequantize<E><<<job.walk.blocks(), kThreads, 0, static_cast<cudaStream_t>(launch.stream)>>>(job);
    return cudaGetLastError();
  });
}

}  // namespace

extern const Cuda cuda_sm75;
const Cuda cuda_sm75{workspace_bytes, launch};

}  // namespace tern::affine_dequantize
