// dynamic_quantize for GPUs from sm_75 on. Ranges that fit in registers are read once; for others the kernels of
// choose_qparams and affine_quantize run one after the other.
#include "ops/choose_qparams/cuda_segments.h"
#include "ops/dynamic_quantize/dynamic_quantize.h"

namespace tern {
namespace choose_qparams {
extern const Cuda cuda_sm75;
}
namespace affine_quantize {
extern const Cuda cuda_sm75;
}

namespace dynamic_quantize {
namespace {

std::size_t workspace_bytes(const DynamicQuantize::Problem& p) {
  return choose_qparams::cuda_sm75.workspace_bytes(choosing(p));
}

int launch_both(const Params& params, std::byte* workspace, const cuda::Launch& launch) {
  const int error = choose_qparams::cuda_sm75.launch(params.choose, workspace, launch);
  return error != 0 ? error : affine_quantize::cuda_sm75.launch(params.quantize, workspace, launch);
}

int launch(const Params& params, std::byte* workspace, const cuda::Launch& launch) {
  const auto& p = params.quantize.problem;
  if (p.math == AffineMath::torch_cuda && p.dtype != DType::f64) return launch_both(params, workspace, launch);
  const auto lines = affine::make_lines(affine::words_of(p), params.quantize.x.strides, params.quantize.code_row_bytes);
  return cuda::with_element(p.dtype, [&]<class E>() -> int {
    if (!choose_qparams::are_held<E>(lines, params.choose.count)) return launch_both(params, workspace, launch);
    auto job = choose_qparams::make_segments<E>(params.choose, lines, launch);
    if (job.per_line > 1 && job.len % codes_per_byte(p.format) != 0)  // ranges share bytes
      return launch_both(params, workspace, launch);
    job.codes = params.quantize.codes;
    job.code_access =
        affine::code_access_of<E>(lines, p.format, job.codes, job.per_line == 1 ? affine::kElems<E> : job.len);
    job.reciprocal = p.math == AffineMath::reciprocal;
    return choose_qparams::launch_held<E, true>(job, static_cast<cudaStream_t>(launch.stream));
  });
}

}  // namespace

extern const Cuda cuda_sm75;
const Cuda cuda_sm75{workspace_bytes, launch};

}  // namespace dynamic_quantize
}  // namespace tern
