// linear on Hopper: mma.sync for some dozens of tokens, warpgroup products for more.
#include "ops/linear/cuda_told.h"
#include "ops/linear/cuda_wgmma_launch.h"

namespace tern::linear {
namespace {

constexpr std::int64_t kWarpTokens = 64;

MmaTuning few_tokens(const Params& p, const cuda::Launch& launch) {
  MmaTuning tuning = mma_tuning(p, launch);
  tuning.dependent = launch.tuning == nullptr || launch.tuning->dependent_launch.value_or(true);
  return tuning;
}

WgmmaTuning many_tokens(const Params& p, const cuda::Launch& launch) {
  WgmmaTuning tuning = wgmma_tuning(p, launch.multiprocessors);
  if (launch.tuning != nullptr) tuning.dependent = launch.tuning->dependent_launch.value_or(tuning.dependent);
  return tuning;
}

int launch_exact(const Params& p, std::byte* workspace, const cuda::Launch& launch) {
  if (p.m > kWarpTokens) return wgmma_launch(p, workspace, launch, many_tokens(p, launch));
  return mma_launch<Sm80>(p, workspace, launch, few_tokens(p, launch));
}

bool told(const Linear::Problem& problem, const cuda::Launch& launch, Tuning& tuning) {
  const Params p = exact_part(problem);
  if (p.count == 0) return false;
  if (p.m <= kWarpTokens) return mma_told(p, launch, few_tokens(p, launch), tuning);
  tuning = {.threads = kWgmmaThreads,
            .grid = GridStrategy::occupancy,  // blocks stay, each with several tiles
            .split = 1,
            .dependent_launch = many_tokens(p, launch).dependent};
  return true;
}

std::size_t workspace_bytes(const Linear::Problem& p) {
  const std::size_t few = mma_workspace_bytes(p), many = p.m_max > kWarpTokens ? wgmma_workspace_bytes(p) : 0;
  return chosen_workspace(p, float_sm90a, std::max(few, many));
}

int launch(const Params& all, std::byte* workspace, const cuda::Launch& launch) {
  return launch_chosen(all, workspace, launch, float_sm90a, launch_exact);
}

}  // namespace

extern const Cuda cuda_sm90a;
constinit const Cuda cuda_sm90a = {workspace_bytes, launch, told};

}  // namespace tern::linear
