// linear on Turing: m8n8k16 for any number of tokens.
#include "ops/linear/cuda_tuning_report.h"

namespace tern::linear {

extern const Cuda cuda_sm75;
constinit const Cuda cuda_sm75 = {
    [](const Linear::Problem& p) {
      return is_trits(p.format) ? chosen_workspace(p, float_sm75, token_workspace_bytes(p))
                                : wide_sm75.workspace_bytes(p);
    },
    [](const Params& all, std::byte* workspace, const cuda::Launch& launch) {
      if (!is_trits(all.format)) return wide_sm75.launch(all, workspace, launch);
      return launch_chosen(all, workspace, launch, float_sm75,
                           [](const Params& p, std::byte* scratch, const cuda::Launch& on) {
                             return mma_launch<Trits, Sm75>(p, scratch, on, mma_tuning(p, on));
                           });
    },
    [](const Linear::Problem& problem, const cuda::Launch& launch, Tuning& tuning) {
      if (!is_trits(problem.format)) return wide_sm75.tuning(problem, launch, tuning);
      const Params p = exact_part(problem);
      return report_mma(p, launch, mma_tuning(p, launch), tuning);
    }};

}  // namespace tern::linear
