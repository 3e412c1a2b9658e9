// A plain affine_quantize for GPUs, written to be read: one thread for each byte of codes; each element is found by its
// indices.
#include "ops/affine/cuda_place.h"
#include "ops/affine_quantize/affine_quantize.h"

namespace tern::affine_quantize {
namespace {

struct Job {
  affine::CudaPlaces places;
  const void* x;
  std::uint8_t* codes;
  std::int64_t code_row_bytes;
  int per_byte;
  bool reciprocal, saturate;
};

template <class E, class Math>
__global__ void quantize(const Job job) {
  const affine::CudaPlaces& places = job.places;
  const int bits = 8 / job.per_byte;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t row_bytes = (places.k + job.per_byte - 1) / job.per_byte, bytes = places.rows * row_bytes;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < bytes; i += step) {
    const std::int64_t row = i / row_bytes, first = i % row_bytes * job.per_byte;
    unsigned byte = 0;
    for (int j = 0; j < job.per_byte && first + j < places.k; ++j) {
      const std::int64_t element = row * places.k + first + j;
      const affine::CudaPlace place(places, element);
      const auto v = affine::cuda_value<E>(job.x, place.offsets[0], job.saturate);
      if (!cuda::finite(v)) places.report(cuda::kNonFinite, element);
      const affine::CudaQparam<E, Math> by(places, place.range);
      const int code = by.clamped(places, rint(by.quotient(places, place.range, job.reciprocal, v))) + by.zero;
      byte |= (static_cast<unsigned>(code) & ((1U << bits) - 1U)) << (bits * j);
    }
    job.codes[row * job.code_row_bytes + i % row_bytes] = static_cast<std::uint8_t>(byte);
  }
}

std::size_t workspace_bytes(const AffineQuantize::Problem&) { return 0; }

int launch(const Params& params, std::byte*, const cuda::Launch& launch) {
  const auto& p = params.problem;
  const Job job{
      .places = affine::make_places(affine::words_of(p), params.qparams, params.q, {params.x.strides}, launch),
      .x = params.x.data,
      .codes = params.codes,
      .code_row_bytes = params.code_row_bytes,
      .per_byte = codes_per_byte(p.format),
      .reciprocal = p.math == AffineMath::reciprocal,
      .saturate = p.non_finite == NonFinite::saturate};
  return cuda::with_element(p.dtype, [&]<class E>() -> int {
    const auto kernel = p.math == AffineMath::torch_cuda ? quantize<E, double> : quantize<E, typename E::Math>;
    kernel<<<launch.multiprocessors * affine::kPlainBlocks, affine::kPlainThreads, 0,
             static_cast<cudaStream_t>(launch.stream)>>>(job);
    return cudaGetLastError();
  });
}

}  // namespace

extern const Cuda cuda_simple;
const Cuda cuda_simple{workspace_bytes, launch};

}  // namespace tern::affine_quantize
