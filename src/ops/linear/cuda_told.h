// How the longest run of a problem would be cut, told without launching it: the tuning of a plan. For .cu files only.
#pragma once

#include "ops/linear/cuda_choice.h"
#include "ops/linear/cuda_mma.h"

namespace tern::linear {
namespace {

// The matrices that the integer kernels take, without their data; none: there is nothing to tell.
inline Params exact_part(const Linear::Problem& problem) {
  Params p;
  p.m = problem.m_max;
  p.k = problem.k;
  p.x_dtype = problem.x_dtype;
  p.math = problem.math;
  p.count = problem.m_max > 0 ? problem.matrices.size() : 0;
  for (std::size_t i = 0; i < p.count; ++i) p.matrices[i].spec = problem.matrices[i];
  return matrices_of(p, [&](const Matrix& matrix) { return for_integers(p, matrix); });
}

// What a launch cuts, without data.
inline Job bare_job(const Params& p) {
  Job job = {};
  job.count = static_cast<std::int32_t>(p.count);
  job.m = static_cast<std::int32_t>(p.m);
  job.k = static_cast<std::int32_t>(p.k);
  job.column_tiles = static_cast<std::int32_t>(ceil_div(p.k, TileMma::kColumns));
  for (std::size_t i = 0; i < p.count; ++i) {
    job.matrices[i].first_tile = job.row_tiles;
    job.row_tiles += static_cast<std::int32_t>(ceil_div(p.matrices[i].spec.n, TileMma::kRows));
  }
  return job;
}

inline bool mma_told(const Params& p, const cuda::Launch& launch, const MmaTuning& asked, Tuning& tuning) {
  if (p.count == 0) return false;
  MmaJob mma = {};
  mma.job = bare_job(p);
  int limit = 0;
  if (cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, launch.device) != cudaSuccess ||
      cut(mma, asked, mma_token_tiles(p.m), limit) > limit)
    return false;
  tuning = {.threads = kWarp * mma.split * mma.row_warps,
            .grid = asked.blocks_per_sm > 0 ? GridStrategy::occupancy : GridStrategy::fixed,
            .split = mma.split,
            .dependent_launch = asked.dependent};
  return true;
}

}  // namespace
}  // namespace tern::linear
