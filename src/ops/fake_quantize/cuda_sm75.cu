// fake_quantize for GPUs from sm_75 on: memory-bound, for every granularity, layout and alignment.
#include "ops/affine/cuda_flat.h"
#include "ops/fake_quantize/cuda_ends.h"
#include "ops/fake_quantize/fake_quantize.h"

namespace tern::fake_quantize {

extern const Cuda cuda_simple;
extern const Cuda cuda_sm75;

namespace {

using affine::kElems;
using affine::kThreads;
using affine::kVectors;

struct Job {
  affine::Walk walk;
  affine::Flat flat;
  const void* x;
  void* y;
  std::uint8_t* mask;  // null if not requested
  bool strict;
};

template <class E>
__global__ void __launch_bounds__(kThreads) fake_quantize(const Job job) {
  using Math = typename E::Math;
  const affine::Walk& walk = job.walk;
  const affine::Tile<E> tile(walk);
  if (tile.rest == 0) return;
  const void* x = affine::line_of(walk, tile, job.x, 0);
  void* y = affine::line_of(walk, tile, job.y, 1);

  affine::Vector<E> vectors[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i)
    vectors[i].read(x, walk.access[0], tile.first_column + tile.column(i), tile.count(tile.column(i)));
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = tile.column(i), n = tile.count(column);
    if (n == 0) return;
    if (!vectors[i].finite()) vectors[i].mend(walk.report, walk.saturate, tile.index(walk, column));
    typename E::Math v[kElems<E>] = {};
    unsigned inside[kElems<E>] = {};
    affine::round_each<E, Math>(walk, tile, column, n, vectors[i], [&](int j, Math sum, const affine::By<E, Math>& by) {
      const Ends<Math> ends(by.rounding, job.strict);
      const Math q = sum - affine::kWhole<Math>;
      inside[j] = ends.inside(q) ? 1 : 0;
      v[j] = ends.within(q) * by.given.scale;
    });
    vectors[i].round(v);
    vectors[i].write(y, walk.access[1], tile.first_column + column, n);
    if (job.mask == nullptr) continue;
    affine::Codes<E> bytes;
    bytes.take(inside, n);
    bytes.write(job.mask + tile.line * walk.lines.code_bytes, walk.codes, tile.first_column + column, n);
  }
}

template <class E, bool kPlain>
__global__ void __launch_bounds__(kThreads) fake_quantize_flat(const Job job) {
  affine::flat_round<E, kPlain>(job.walk, job.flat, job.x,
                                [&](std::uint32_t at, auto& sums, int, const auto& rounding) {
                                  const Ends<float> ends(rounding, job.strict);
                                  float v[kElems<E>];
                                  unsigned inside[kElems<E>];
#pragma unroll
                                  for (int j = 0; j < kElems<E>; ++j) {
                                    const float q = sums[j] - affine::kWhole<float>;
                                    inside[j] = ends.inside(q) ? 1 : 0;
                                    v[j] = ends.within(q) * rounding.scale;
                                  }
                                  affine::Vector<E> y;
                                  y.round(v);
                                  affine::flat_write(job.y, at, y);
                                  if (job.mask == nullptr) return;
                                  affine::Codes<E> bytes;
                                  bytes.take(inside, kElems<E>);
                                  affine::FlatCodes<E, 8>::write(job.mask, at, bytes);
                                });
}

std::size_t workspace_bytes(const FakeQuantize::Problem&) { return 0; }

int launch(const Params& params, std::byte* workspace, const cuda::Launch& launch) {
  const auto& p = params.problem;
  // PyTorch's fake_quantize does not divide in f64 on a GPU, so speed matters little here: use the plain kernel.
  if (p.math == AffineMath::torch_cuda && p.dtype != DType::f64) return cuda_simple.launch(params, workspace, launch);
  affine::Words words = affine::words_of(p);
  words.format = Format::u8;  // the mask is laid out like codes of one byte
  const Shape strides[] = {params.x.strides, params.y.strides};
  const auto lines = affine::make_lines(words, strides, params.mask_row_bytes);
  return cuda::with_element(p.dtype, [&]<class E>() -> int {
    Job job{.walk = affine::make_walk<E>(lines, {params.x.data, params.y.data}, words.format, params.mask, launch),
            .flat = {},
            .x = params.x.data,
            .y = params.y.data,
            .mask = params.mask,
            .strict = p.strict};
    affine::give_qparams(job.walk, params.qparams, params.q);
    job.walk.beyond = 1;
    job.walk.reciprocal = p.math == AffineMath::reciprocal;
    job.walk.saturate = p.non_finite == NonFinite::saturate;
    auto* stream = static_cast<cudaStream_t>(launch.stream);
    if constexpr (sizeof(typename E::Math) == 4) {
      job.flat = affine::flat_of<E>(job.walk, 2, params.mask != nullptr);
      if (job.flat.vectors != 0) {
        const auto kernel = job.flat.plain ? fake_quantize_flat<E, true> : fake_quantize_flat<E, false>;
        kernel<<<job.flat.blocks(), kThreads, 0, stream>>>(job);
        return cudaGetLastError();
      }
    }
    fake_quantize<E><<<job.walk.blocks(), kThreads, 0, stream>>>(job);
    return cudaGetLastError();
  });
}

}  // namespace

const Cuda cuda_sm75{workspace_bytes, launch};

}  // namespace tern::fake_quantize
