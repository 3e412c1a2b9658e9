// A plain fake_quantize_backward for GPUs, written to be read: one thread for each element, then one block for each
// range.
#include "ops/affine/cuda_place.h"
#include "ops/cuda_block_folds.h"
#include "ops/fake_quantize_backward/cuda_sums.h"
#include "ops/fake_quantize_backward/fake_quantize_backward.h"

namespace tern::fake_quantize_backward {
namespace {

struct Job {
  affine::CudaPlaces places;  // of grad_y, x, grad_x
  const void* grad_y;
  const void* x;
  void* grad_x;
  const std::uint8_t* mask;
  std::int64_t mask_row_bytes;
  bool reciprocal, saturate, strict;
  Outputs to;
};

template <class Math>
struct Step {
  Math step;
  bool inside;
};
template <class E, class Math>
__device__ Step<Math> step_of(const Job& job, const affine::CudaPlace& place) {
  const affine::CudaPlaces& places = job.places;
  const affine::CudaQparam<E, Math> by(places, place.range);
  const auto x = affine::cuda_value<E>(job.x, place.offsets[1], job.saturate);
  const Math v = by.quotient(places, place.range, job.reciprocal, x), whole = rint(v);
  const int end = job.strict ? 1 : 0;
  const bool inside = whole >= static_cast<Math>(places.q.min - by.zero + end) &&
                      whole <= static_cast<Math>(places.q.max - by.zero - end);
  return {inside ? whole - v : static_cast<Math>(by.clamped(places, whole)), inside};
}

template <class E, class Math>
__global__ void pass(const Job job) {
  const affine::CudaPlaces& places = job.places;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < places.rows * places.k;
       i += step) {
    const affine::CudaPlace place(places, i);
    bool inside = false;
    if (job.mask != nullptr) {
      inside = job.mask[i / places.k * job.mask_row_bytes + i % places.k] != 0;
    } else {
      if (!cuda::finite(affine::cuda_value<E>(job.x, place.offsets[1], job.saturate)))
        places.report(cuda::kNonFinite, i);
      inside = step_of<E, Math>(job, place).inside;
    }
    static_cast<typename E::Raw*>(job.grad_x)[place.offsets[2]] =
        passed<E>(static_cast<const typename E::Raw*>(job.grad_y)[place.offsets[0]], inside);
  }
}

template <class E, class Math>
__global__ void __launch_bounds__(cuda::kThreads, 2) sum_ranges(const Job job) {
  for (std::int64_t range = blockIdx.x; range < job.places.ranges; range += gridDim.x) {
    const affine::CudaRange of(job.places, range);
    const auto sum = [&](auto term) {
      return cuda::ordered_sum(of.n, [&](std::int64_t i) -> double {
        const affine::CudaPlace place(job.places, of.element(i));
        const double g = E::widen(static_cast<const typename E::Raw*>(job.grad_y)[place.offsets[0]]);
        return term(g, step_of<E, Math>(job, place));
      });
    };
    const double steps = sum([](double g, const Step<Math>& s) { return __dmul_rn(g, static_cast<double>(s.step)); });
    const double outside = sum([](double g, const Step<Math>& s) { return s.inside ? 0.0 : g; });
    if (threadIdx.x == 0) write_gradients<E>(job.to, range, {steps, outside});
  }
}

std::size_t workspace_bytes(const FakeQuantizeBackward::Problem&) { return 0; }

template <class E, class Math>
int launch_as(const Params& params, const cuda::Launch& launch) {
  const auto& p = params.problem;
  const Shape& x = params.mask == nullptr ? params.x.strides : params.grad_y.strides;
  const Job job{.places = affine::make_places(affine::words_of(p), params.qparams, params.q,
                                              {params.grad_y.strides, x, params.grad_x.strides}, launch),
                .grad_y = params.grad_y.data,
                .x = params.x.data,
                .grad_x = params.grad_x.data,
                .mask = params.mask,
                .mask_row_bytes = params.mask_row_bytes,
                .reciprocal = p.math == AffineMath::reciprocal,
                .saturate = p.non_finite == NonFinite::saturate,
                .strict = p.strict,
                .to = outputs_of(params)};
  auto* stream = static_cast<cudaStream_t>(launch.stream);
  const auto blocks = static_cast<unsigned>(launch.multiprocessors * affine::kPlainBlocks);
  pass<E, Math><<<blocks, affine::kPlainThreads, 0, stream>>>(job);
  if (p.qparam_gradients) sum_ranges<E, Math><<<blocks, cuda::kThreads, 0, stream>>>(job);
  return cudaGetLastError();
}

int launch(const Params& params, std::byte*, const cuda::Launch& launch) {
  return cuda::with_element(params.problem.dtype, [&]<class E>() -> int {
    if (params.problem.math == AffineMath::torch_cuda) return launch_as<E, double>(params, launch);
    return launch_as<E, typename E::Math>(params, launch);
  });
}

}  // namespace

extern const Cuda cuda_simple;
const Cuda cuda_simple{workspace_bytes, launch};

}  // namespace tern::fake_quantize_backward
