// Reports how a run of m_max tokens would be cut, without launching it: the tuning of a plan. For .cu files only.
#pragma once

#include "ops/linear/cuda_choice.h"
#include "ops/linear/cuda_mma.h"

namespace tern::linear {
namespace {

// The matrices that the integer kernels take, without their data. If there are none, there is nothing to report.
inline Params exact_part(const Linear::Problem& problem) {
  Params p;
  p.m = problem.m_max;
  p.k = problem.k;
  p.x_dtype = problem.x_dtype;
  p.format = problem.format;
  p.math = problem.math;
  p.count = problem.m_max > 0 ? problem.matrices.size() : 0;
  for (std::size_t i = 0; i < p.count; ++i) p.matrices[i].spec = problem.matrices[i];
  return matrices_of(p, [&](const Matrix& matrix) { return for_integers(p, matrix); });
}

inline bool report_mma(const Params& p, const cuda::Launch& launch, const MmaTuning& asked, Tuning& tuning) {
  if (p.count == 0) return false;
  MmaJob mma = {};
  mma.job = job_of(p);
  const int limit = shared_limit(launch);
  if (cut(mma, asked, mma_token_tiles(p.m), limit) > limit) return false;
  tuning = {.threads = kWarp * mma.split * mma.row_warps,
            .grid = asked.blocks_per_sm > 0 ? GridStrategy::occupancy : GridStrategy::fixed,
            .split = mma.split,
            .dependent_launch = false};
  return true;
}

}  // namespace
}  // namespace tern::linear
