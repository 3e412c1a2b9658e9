// A plain fake_quantize for GPUs, written to be read: one thread for each element, found by its indices.
#include "ops/affine/cuda_place.h"
#include "ops/fake_quantize/fake_quantize.h"

namespace tern::fake_quantize {
namespace {

struct Job {
  affine::CudaPlaces places;
  const void* x;
  void* y;
  std::uint8_t* mask;
  std::int64_t mask_row_bytes;
  bool reciprocal, saturate, strict;
};

template <class E, class Math>
__global__ void fake_quantize(const Job job) {
  const affine::CudaPlaces& places = job.places;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < places.rows * places.k;
       i += step) {
    const affine::CudaPlace place(places, i);
    const auto x = affine::cuda_value<E>(job.x, place.offsets[0], job.saturate);
    if (!cuda::finite(x)) places.report(cuda::kNonFinite, i);
    const affine::CudaQparam<E, Math> by(places, place.range);
    const Math whole = rint(by.quotient(places, place.range, job.reciprocal, x));
    static_cast<typename E::Raw*>(job.y)[place.offsets[1]] =
        E::round(static_cast<typename E::Math>(by.clamped(places, whole)) * static_cast<typename E::Math>(by.scale));
    if (job.mask == nullptr) continue;
    const int end = job.strict ? 1 : 0;
    job.mask[i / places.k * job.mask_row_bytes + i % places.k] =
        whole >= static_cast<Math>(places.q.min - by.zero + end) &&
                whole <= static_cast<Math>(places.q.max - by.zero - end)
            ? 1
            : 0;
  }
}

std::size_t workspace_bytes(const FakeQuantize::Problem&) { return 0; }

int launch(const Params& params, std::byte*, const cuda::Launch& launch) {
  const auto& p = params.problem;
  const Job job{.places = affine::make_places(affine::words_of(p), params.qparams, params.q,
                                              {params.x.strides, params.y.strides}, launch),
                .x = params.x.data,
                .y = params.y.data,
                .mask = params.mask,
                .mask_row_bytes = params.mask_row_bytes,
                .reciprocal = p.math == AffineMath::reciprocal,
                .saturate = p.non_finite == NonFinite::saturate,
                .strict = p.strict};
  return cuda::with_element(p.dtype, [&]<class E>() -> int {
    const auto kernel =
        p.math == AffineMath::torch_cuda ? fake_quantize<E, double> : fake_quantize<E, typename E::Math>;
    kernel<<<launch.multiprocessors * affine::kPlainBlocks, affine::kPlainThreads, 0,
             static_cast<cudaStream_t>(launch.stream)>>>(job);
    return cudaGetLastError();
  });
}

}  // namespace

extern const Cuda cuda_simple;
const Cuda cuda_simple{workspace_bytes, launch};

}  // namespace tern::fake_quantize
