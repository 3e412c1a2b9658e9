// The plain activation_quantize on a GPU, written for readability: one warp per token, any layout and alignment.
#include "ops/activation_quantize/activation_quantize.h"
#include "ops/cuda_words.h"

namespace tern::activation_quantize {
namespace {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;

template <class E>
__global__ void quantize(const Params params, const cuda::Report report) {
  const auto& p = params.problem;
  for (std::int64_t token = blockIdx.x; token < p.m; token += gridDim.x) {
    const auto* x = static_cast<const typename E::Raw*>(params.x) + token * params.x_stride;
    float max_abs = 0;
    for (std::int64_t i = threadIdx.x; i < p.k; i += kWarp) {
      const float v = E::widen(x[i]);
      if (p.non_finite == NonFinite::reject && !cuda::finite(v)) report(cuda::kNonFinite, token * p.k + i);
      max_abs = fmaxf(max_abs, fabsf(cuda::saturated<E>(v)));
    }
    for (int step = kWarp / 2; step > 0; step /= 2) max_abs = fmaxf(max_abs, __shfl_xor_sync(kAllLanes, max_abs, step));

    const float s = __fdiv_rn(127.0F, fmaxf(max_abs, 1e-5F));
    int sum = 0;
    for (std::int64_t i = threadIdx.x; i < p.k; i += kWarp) {
      const float v = rintf(__fmul_rn(cuda::saturated<E>(E::widen(x[i])), s));
      const int q = static_cast<int>(fminf(fmaxf(v, -128.0F), 127.0F));
      params.q[token * params.q_stride + i] = static_cast<std::int8_t>(q);
      sum += q;
    }
    for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
    if (threadIdx.x == 0) {
      params.scales[token] = s;
      params.sums[token] = sum;
    }
  }
}

std::size_t workspace_bytes(const ActivationQuantize::Problem&) { return 0; }

int launch(const Params& params, std::byte*, const cuda::Launch& launch) {
  const std::int64_t most = std::int64_t{launch.multiprocessors} * 64;
  const auto blocks = static_cast<unsigned>(params.problem.m < most ? params.problem.m : most);
  const auto launch_as = [&]<class E>() -> int {
    quantize<E><<<blocks, kWarp, 0, static_cast<cudaStream_t>(launch.stream)>>>(params, cuda::report_of(launch));
    return cudaGetLastError();
  };
  switch (params.problem.dtype) {
    case DType::f16: return launch_as.operator()<cuda::F16>();
    case DType::bf16: return launch_as.operator()<cuda::Bf16>();
    default: return launch_as.operator()<cuda::F32>();
  }
}

}  // namespace

extern const Cuda cuda_simple;
const Cuda cuda_simple{workspace_bytes, launch};

}  // namespace tern::activation_quantize
