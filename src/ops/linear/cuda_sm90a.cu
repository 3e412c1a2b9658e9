// linear on Hopper: weights that stream through shared memory for a few tokens, warpgroup products for more.
#include "ops/linear/cuda_stream.h"
#include "ops/linear/cuda_tuning_report.h"
#include "ops/linear/cuda_wgmma_launch.h"

namespace tern::linear {
namespace {

WgmmaTuning many_tokens(const Params& p, const cuda::Launch& launch) {
  WgmmaTuning tuning = wgmma_tuning(p, launch.multiprocessors);
  tuning.dependent = starts_early(launch);
  return tuning;
}

int launch_exact(const Params& p, std::byte* workspace, const cuda::Launch& launch) {
  const StreamTuning few = stream_tuning(launch);
  StreamCut cut = {};
  cut.stream.job = job_of(p);
  if (stream_cut(cut, few, shared_limit(launch), launch.multiprocessors))
    return stream_launch<Trits>(cut, p, workspace, launch, few);
  return wgmma_launch<Trits>(p, workspace, launch, many_tokens(p, launch));
}

bool report_tuning(const Linear::Problem& problem, const cuda::Launch& launch, Tuning& tuning) {
  if (!is_trits(problem.format)) return wide_sm90a.tuning(problem, launch, tuning);
  const Params p = exact_part(problem);
  if (p.count == 0) return false;
  if (report_stream(p, launch, tuning)) return true;
  tuning = reported_wgmma(many_tokens(p, launch));
  return true;
}

std::size_t workspace_bytes(const Linear::Problem& p) {
  if (!is_trits(p.format)) return wide_sm90a.workspace_bytes(p);
  return chosen_workspace(p, float_sm90a, std::max(token_workspace_bytes(p), wgmma_workspace_bytes(p)));
}

int launch(const Params& all, std::byte* workspace, const cuda::Launch& launch) {
  if (!is_trits(all.format)) return wide_sm90a.launch(all, workspace, launch);
  return launch_chosen(all, workspace, launch, float_sm90a, launch_exact);
}

}  // namespace

extern const Cuda cuda_sm90a;
constinit const Cuda cuda_sm90a = {workspace_bytes, launch, report_tuning};

}  // namespace tern::linear
