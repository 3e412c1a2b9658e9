// A plain dynamic_quantize for GPUs, written to be read: the plain kernels of choose_qparams and affine_quantize, one
// after the other.
#include "ops/dynamic_quantize/dynamic_quantize.h"

namespace tern {
namespace choose_qparams {
extern const Cuda cuda_simple;
}
namespace affine_quantize {
extern const Cuda cuda_simple;
}

namespace dynamic_quantize {
namespace {

std::size_t workspace_bytes(const DynamicQuantize::Problem& p) {
  return choose_qparams::cuda_simple.workspace_bytes(choosing(p));
}

int launch(const Params& params, std::byte* workspace, const cuda::Launch& launch) {
  const int error = choose_qparams::cuda_simple.launch(params.choose, workspace, launch);
  return error != 0 ? error : affine_quantize::cuda_simple.launch(params.quantize, workspace, launch);
}

}  // namespace

extern const Cuda cuda_simple;
const Cuda cuda_simple{workspace_bytes, launch};

}  // namespace dynamic_quantize
}  // namespace tern
