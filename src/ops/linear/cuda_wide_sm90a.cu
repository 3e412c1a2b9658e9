// linear with weights of 8 and 4 bits on Hopper: weights that stream through shared memory for a few tokens, warpgroup
// products for more.
#include "ops/linear/cuda_stream.h"
#include "ops/linear/cuda_wgmma_launch.h"
#include "ops/linear/cuda_wide.h"

namespace tern::linear {
namespace {

// Chooses the warpgroup kernel, by the times of 24 tunings of 182 problems on an H200, with n x k from 2560 x 2560 to
// 128256 x 2560 and 9 to 1024 tokens. Up to 64 tokens, blocks that share tiles are the fastest. With more tokens they
// are the fastest only where whole tiles would leave half of the multiprocessors idle and each block has enough steps
// to make sharing worthwhile.
WgmmaTuning many_tokens(const Params& p, const cuda::Launch& launch) {
  constexpr std::int64_t kNarrow = 64, kLeastSteps = 4, kStepsWorthTwo = 36;
  WgmmaTuning tuning;
  tuning.dependent = starts_early(launch);
  const bool narrow = p.m <= kNarrow;
  while (kSplitShapes[tuning.shape].width < (narrow ? p.m : kWidestSplit)) ++tuning.shape;
  std::int64_t tiles = 0;
  for (std::size_t i = 0; i < p.count; ++i) tiles += ceil_div(p.matrices[i].spec.n, kSplitRows);
  tiles *= ceil_div(p.m, kSplitShapes[tuning.shape].width);
  const std::int64_t steps = ceil_div(p.k, TileMma::kColumns), slots = (narrow ? 2 : 1) * launch.multiprocessors;
  const auto fits = [&](std::int64_t split) {
    return split <= kMostSplit && steps >= kLeastSteps * split &&
           tiles * split <= (split > 2 ? slots * 15 / 16 : slots);
  };
  tuning.split = 1;
  while (fits(std::int64_t{2} * tuning.split)) tuning.split *= 2;
  if (narrow || tuning.split > 2 || (tuning.split == 2 && steps >= kStepsWorthTwo)) return tuning;
  tuning.split = 0;
  tuning.shape = kWideShape;
  tuning.group = kWgmmaShapes[kWideShape].group;
  return tuning;
}

template <class W>
int launch_exact(const Params& p, std::byte* workspace, const cuda::Launch& launch) {
  const StreamTuning few = stream_tuning(launch);
  StreamCut cut = {};
  cut.stream.job = job_of(p);
  if (stream_cut(cut, few, shared_limit(launch), launch.multiprocessors))
    return stream_launch<W>(cut, p, workspace, launch, few);
  return wgmma_launch<W>(p, workspace, launch, many_tokens(p, launch));
}

bool report_tuning(const Linear::Problem& problem, const cuda::Launch& launch, Tuning& tuning) {
  const Params p = exact_part(problem);
  if (p.count == 0) return false;
  if (report_stream(p, launch, tuning)) return true;
  tuning = reported_wgmma(many_tokens(p, launch));
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

constinit const Cuda wide_sm90a = {workspace_bytes, launch, report_tuning};

}  // namespace tern::linear
