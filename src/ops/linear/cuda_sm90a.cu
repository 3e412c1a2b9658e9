// linear on Hopper: mma.sync for some tokens, warpgroup products for more.
#include "ops/linear/cuda_choice.h"
#include "ops/linear/cuda_mma.h"
#include "ops/linear/cuda_wgmma_launch.h"

namespace tern::linear {
namespace {

constexpr std::int64_t kWarpTokens = 16;

int launch_exact(const Params& p, std::byte* workspace, const cuda::Launch& launch) {
  if (p.m > kWarpTokens) {
    WgmmaTuning tuning = wgmma_tuning(p, launch.multiprocessors);
    if (launch.tuning != nullptr) tuning.dependent = launch.tuning->dependent_launch.value_or(tuning.dependent);
    return wgmma_launch(p, workspace, launch, tuning);
  }
  MmaTuning tuning = mma_tuning(p, launch);
  tuning.dependent = launch.tuning == nullptr || launch.tuning->dependent_launch.value_or(true);
  return mma_launch<Sm80>(p, workspace, launch, tuning);
}

}  // namespace

extern const Cuda cuda_sm90a;
constinit const Cuda cuda_sm90a = {
    [](const Linear::Problem& p) {
      const std::size_t few = mma_workspace_bytes(p), many = p.m_max > kWarpTokens ? wgmma_workspace_bytes(p) : 0;
      return chosen_workspace(p, float_sm90a, few > many ? few : many);
    },
    [](const Params& all, std::byte* workspace, const cuda::Launch& launch) {
      return launch_chosen(all, workspace, launch, float_sm90a, launch_exact);
    }};

}  // namespace tern::linear
