// affine_quantize for GPUs from sm_75 on: memory-bound, for every granularity, format, layout and alignment.
#include "ops/affine/cuda_flat.h"
#include "ops/affine_quantize/affine_quantize.h"

namespace tern::affine_quantize {
namespace {

using affine::kElems;
using affine::kThreads;
using affine::kVectors;

struct Job {
  affine::Walk walk;
  affine::Flat flat;
  const void* x;
  std::uint8_t* codes;
};

template <class E, class Math>
__global__ void __launch_bounds__(kThreads) quantize(const Job job) {
  const affine::Walk& walk = job.walk;
  const affine::Tile<E> tile(walk);
  if (tile.rest == 0) return;
  const void* x = affine::line_of(walk, tile, job.x, 0);
  std::uint8_t* codes = job.codes + tile.line * walk.lines.code_bytes;

  affine::Vector<E> vectors[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i)
    vectors[i].read(x, walk.access[0], tile.first_column + tile.column(i), tile.count(tile.column(i)));
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = tile.column(i), n = tile.count(column);
    if (n == 0) return;
    if (!vectors[i].finite()) vectors[i].mend(walk.report, walk.saturate, tile.index(walk, column));
    unsigned code[kElems<E>] = {};
    affine::round_each<E, Math>(walk, tile, column, n, vectors[i], [&](int j, Math sum, const affine::By<E, Math>& by) {
      code[j] = affine::low_bits(sum) + static_cast<unsigned>(by.given.zero);
    });
    affine::Codes<E> of_vector;
    of_vector.take(code, n);
    of_vector.write(codes, walk.codes, tile.first_column + column, n);
  }
}

template <class E, int kBits, bool kPlain>
__global__ void __launch_bounds__(kThreads) quantize_flat(const Job job) {
  affine::flat_round<E, kPlain>(job.walk, job.flat, job.x, [&](std::uint32_t at, auto& sums, int zero, const auto&) {
    affine::Codes<E> codes;
    codes.take_sums(sums, kPlain ? 0 : zero);
    affine::FlatCodes<E, kBits>::write(job.codes, at, codes);
  });
}

std::size_t workspace_bytes(const AffineQuantize::Problem&) { return 0; }

template <class E, class Math>
int launch_as(const Params& params, const cuda::Launch& launch) {
  const auto& p = params.problem;
  const auto lines = affine::make_lines(affine::words_of(p), params.x.strides, params.code_row_bytes);
  Job job{.walk = affine::make_walk<E>(lines, {params.x.data}, p.format, params.codes, launch),
          .flat = {},
          .x = params.x.data,
          .codes = params.codes};
  affine::give_qparams(job.walk, params.qparams, params.q);
  job.walk.reciprocal = p.math == AffineMath::reciprocal;
  job.walk.saturate = p.non_finite == NonFinite::saturate;
  auto* stream = static_cast<cudaStream_t>(launch.stream);
  if constexpr (sizeof(Math) == 4) {
    job.flat = affine::flat_of<E>(job.walk, 1, true);
    const int bits = job.walk.codes.bits;
    if (job.flat.vectors != 0 && bits >= 4) {
      const auto kernel = job.flat.plain ? (bits == 8 ? quantize_flat<E, 8, true> : quantize_flat<E, 4, true>)
                                         : (bits == 8 ? quantize_flat<E, 8, false> : quantize_flat<E, 4, false>);
      kernel<<<job.flat.blocks(), kThreads, 0, stream>>>(job);
      return cudaGetLastError();
    }
  }
  quantize<E, Math><<<job.walk.blocks(), kThreads, 0, stream>>>(job);
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
