// Chooses the CUDA kernel for each matrix of a linear problem. Matrices with exact sums go to the integer kernels of
// the GPU's generation, the others to its float modes, and what neither takes to the plain kernel. Where a plan sends
// only some of its matrices there, its explanation says so (plain_part.cpp). For .cu files only.
#pragma once

#include <algorithm>

#include "ops/linear/cuda_job.h"
#include "ops/linear/cuda_serves.h"

namespace tern::linear {

extern const Cuda cuda_simple;

// The float modes of a generation, defined in cuda_float_sm*.cu.
struct FloatModes {
  std::size_t (*workspace_bytes)(const Linear::Problem& problem);
  bool (*serves)(const Params& params);
  int (*launch)(const Params& params, std::byte* workspace, const cuda::Launch& launch);
};
extern const FloatModes float_sm75, float_sm80, float_sm90a;

// All kernels of a generation for weights of 8 and 4 bits, defined in cuda_wide_sm*.cu.
extern const Cuda wide_sm75, wide_sm80, wide_sm90a;

namespace {

// The problem with only the wanted matrices, and of these only those that have rows.
template <class Wanted>
Params matrices_of(const Params& all, Wanted wanted) {
  Params some = all;
  some.count = 0;
  for (std::size_t i = 0; i < all.count; ++i)
    if (all.matrices[i].spec.n > 0 && wanted(all.matrices[i])) some.matrices[some.count++] = all.matrices[i];
  return some;
}

inline bool for_integers(const Params& p, const Matrix& matrix) {
  return linear::for_integers(p.math, p.format, p.k, matrix.spec.granularity);
}

// exact_launch(params, workspace, launch) gets problems of int8 sums with k from 1 to max_mma_k().
template <class Exact>
int launch_chosen(const Params& all, std::byte* workspace, const cuda::Launch& launch, const FloatModes& modes,
                  Exact exact_launch) {
  const auto sums_are_exact = [&](const Matrix& matrix) { return for_integers(all, matrix); };
  if (const Params p = matrices_of(all, sums_are_exact); p.count > 0)
    if (const int code = exact_launch(p, workspace, launch); code != 0) return code;
  const Params rest = matrices_of(all, [&](const Matrix& matrix) { return !sums_are_exact(matrix); });
  if (rest.count == 0) return 0;
  return (modes.serves(rest) ? modes.launch : cuda_simple.launch)(rest, workspace, launch);
}

inline std::size_t chosen_workspace(const Linear::Problem& p, const FloatModes& modes, std::size_t exact_bytes) {
  return std::max({exact_bytes, modes.workspace_bytes(p), cuda_simple.workspace_bytes(p)});
}

}  // namespace
}  // namespace tern::linear
