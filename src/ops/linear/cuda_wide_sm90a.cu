// linear with weights of 8 and 4 bits on Hopper: a few tokens by weights that stream through shared memory, some by
// mma.sync, many by warpgroup products.
#include "ops/linear/cuda_stream.h"
#include "ops/linear/cuda_wgmma_launch.h"
#include "ops/linear/cuda_wide.h"

namespace tern::linear {
namespace {

// Tiles of warpgroups that leave half of the multiprocessors without work are slower than warps that share columns;
// so are tiles that are half empty.
constexpr std::int64_t kMmaTokens = 64;
bool for_wgmma(const Params& p, int multiprocessors) {
  const WgmmaShapeInfo& shape = kWgmmaShapes[kWideShape];
  std::int64_t row_blocks = 0;
  for (std::size_t i = 0; i < p.count; ++i) row_blocks += ceil_div(p.matrices[i].spec.n, shape.rows);
  return p.m > kMmaTokens && 2 * row_blocks * ceil_div(p.m, shape.width) >= multiprocessors;
}
WgmmaTuning many_tokens(const cuda::Launch& launch) {
  WgmmaTuning tuning;
  tuning.shape = kWideShape;
  tuning.group = kWgmmaShapes[kWideShape].group;
  tuning.dependent = starts_early(launch);
  return tuning;
}

template <class W>
int launch_exact(const Params& p, std::byte* workspace, const cuda::Launch& launch) {
  const StreamTuning few = stream_tuning(launch);
  StreamCut cut = {};
  cut.stream.job = job_of(p);
  if (stream_cut(cut, few, shared_limit(launch), launch.multiprocessors))
    return stream_launch<W>(cut, p, workspace, launch, few);
  if (for_wgmma(p, launch.multiprocessors)) return wgmma_launch<W>(p, workspace, launch, many_tokens(launch));
  return mma_launch<W, Sm80>(p, workspace, launch, mma_tuning(p, launch));
}

bool told(const Linear::Problem& problem, const cuda::Launch& launch, Tuning& tuning) {
  const Params p = exact_part(problem);
  if (p.count == 0) return false;
  if (stream_told(p, launch, tuning)) return true;
  if (!for_wgmma(p, launch.multiprocessors)) return mma_told(p, launch, mma_tuning(p, launch), tuning);
  tuning = {.threads = kWgmmaThreads,
            .grid = GridStrategy::occupancy,
            .split = 1,
            .dependent_launch = many_tokens(launch).dependent};
  return true;
}

std::size_t workspace_bytes(const Linear::Problem& p) {
  return chosen_workspace(p, wide_modes<90>(), std::max(token_workspace_bytes(p), wgmma_workspace_bytes(p)));
}

int launch(const Params& all, std::byte* workspace, const cuda::Launch& launch) {
  return launch_chosen(all, workspace, launch, wide_modes<90>(),
                       [](const Params& p, std::byte* scratch, const cuda::Launch& on) {
                         return with_wide(p, [&]<class W>() { return launch_exact<W>(p, scratch, on); });
                       });
}

}  // namespace

constinit const Cuda wide_sm90a = {workspace_bytes, launch, told};

}  // namespace tern::linear
