// A plain affine_dequantize for GPUs, written to be read: one thread for each element, found by its indices.
#include "ops/affine/cuda_place.h"
#include "ops/affine_dequantize/affine_dequantize.h"

namespace tern::affine_dequantize {
namespace {

struct Job {
  affine::CudaPlaces places;
  const std::uint8_t* codes;
  std::int64_t code_row_bytes;
  int per_byte;
  bool has_sign;
  void* y;
};

template <class E>
__global__ void dequantize(const Job job) {
  const affine::CudaPlaces& places = job.places;
  const int bits = 8 / job.per_byte;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < places.rows * places.k;
       i += step) {
    const std::int64_t row = i / places.k, column = i % places.k;
    const int byte = job.codes[row * job.code_row_bytes + column / job.per_byte];
    int code = byte >> (bits * static_cast<int>(column % job.per_byte)) & ((1 << bits) - 1);
    if (job.has_sign && code >= 1 << (bits - 1)) code -= 1 << bits;

    const affine::CudaPlace place(places, i);
    const affine::CudaQparam<E, typename E::Math> by(places, place.range);
    static_cast<typename E::Raw*>(job.y)[place.offsets[0]] =
        E::round(static_cast<typename E::Math>(code - by.zero) * by.scale);
  }
}

std::size_t workspace_bytes(const AffineDequantize::Problem&) { return 0; }

int launch(const Params& params, std::byte*, const cuda::Launch& launch) {
  const auto& p = params.problem;
  const CodeRange valid = code_range(p.format);
  const Job job{.places = affine::make_places(affine::words_of(p), params.qparams, valid, {params.y.strides}, launch),
                .codes = params.codes,
                .code_row_bytes = params.code_row_bytes,
                .per_byte = codes_per_byte(p.format),
                .has_sign = valid.min < 0,
                .y = params.y.data};
  return cuda::with_element(p.dtype, [&]<class E>() -> int {
    dequantize<E><<<launch.multiprocessors * affine::kPlainBlocks, affine::kPlainThreads, 0,
                    static_cast<cudaStream_t>(launch.stream)>>>(job);
    return cudaGetLastError();
  });
}

}  // namespace

extern const Cuda cuda_simple;
const Cuda cuda_simple{workspace_bytes, launch};

}  // namespace tern::affine_dequantize
