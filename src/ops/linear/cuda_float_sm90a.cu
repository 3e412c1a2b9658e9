// The float modes of linear for one generation of GPUs.
#include "ops/linear/cuda_choice.h"
#include "ops/linear/cuda_float.h"

namespace tern::linear {
namespace {

int launch(const Params& p, std::byte* workspace, const cuda::Launch& launch) {
  FloatTuning tuning;
  if (launch.tuning != nullptr) tuning.early_start = launch.tuning->dependent_launch.value_or(true);
  return float_launch<Trits, 90>(p, workspace, launch, tuning);
}

}  // namespace

constinit const FloatModes float_sm90a = {float_workspace_bytes, float_serves<90>, launch};

}  // namespace tern::linear
