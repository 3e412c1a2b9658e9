// Which CUDA kernel a problem of linear goes to: the matrices with exact sums to the integer kernels of a generation,
// the others to its float modes, what neither takes to the plain kernel: in a plan that is only some of its matrices,
// and its explanation says so (plain_part.cpp). For .cu files only.
#pragma once

#include <algorithm>

#include "ops/linear/cuda_job.h"
#include "ops/linear/cuda_serves.h"

namespace tern::linear {

extern const Cuda cuda_simple;

// The float modes of a generation, in files of their own.
struct FloatModes {
  std::size_t (*workspace_bytes)(const Linear::Problem& problem);
  bool (*serves)(const Params& params);
  int (*launch)(const Params& params, std::byte* workspace, const cuda::Launch& launch);
};
extern const FloatModes float_sm75, float_sm80, float_sm90a;

// All of a generation for weights of 8 and 4 bits, in files of their own too.
extern const Cuda wide_sm75, wide_sm80, wide_sm90a;

namespace {

// The problem with some of its matrices; those without rows never.
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

// exact(params, workspace, launch) gets problems of int8 sums with k from 1 to max_mma_k().
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
