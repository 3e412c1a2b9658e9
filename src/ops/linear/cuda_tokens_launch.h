// Shared by launches of linear's kernels for few tokens: the description of the tokens, and a kernel that quantizes
// floats to int8 first. For .cu files only.
#pragma once

#include <algorithm>

#include "ops/cuda_start.h"
#include "ops/linear/cuda_job.h"
#include "ops/linear/cuda_tokens.h"

namespace tern::linear {
namespace {

// Workspace of floats that a separate kernel quantizes: the codes of all tokens, token_pitch() apart, then their
// scales.
inline std::int64_t token_pitch(std::int64_t k) { return ceil_div(k, TileMma::kColumns) * TileMma::kColumns; }
inline std::size_t token_workspace_bytes(const Linear::Problem& problem) {
  if (problem.x_dtype == DType::i8) return 0;
  return static_cast<std::size_t>(problem.m_max * (token_pitch(problem.k) + std::int64_t{sizeof(float)}));
}

template <class E>
int launch_quantize(const Tokens& tokens, std::int64_t m, std::byte* codes, float* scales, bool dependent,
                    const cuda::Launch& launch) {
  const std::int64_t vectors = ceil_div(tokens.k, aq::kVector<E>);
  const int threads = static_cast<int>(std::clamp<std::int64_t>(ceil_div(vectors, 2 * kWarp) * kWarp, 64, 1024));
  return cuda::start(quantize_tokens<E>,
                     {.blocks = dim3(static_cast<unsigned>(m)),
                      .threads = dim3(static_cast<unsigned>(threads)),
                      .dependent = dependent},
                     launch, tokens, codes, static_cast<int>(token_pitch(tokens.k)), scales);
}

inline Tokens tokens_of(const Params& params, const cuda::Launch& launch) {
  const std::int64_t x_bytes = params.x_dtype == DType::i8 ? 1 : params.x_dtype == DType::f32 ? 4 : 2;
  return {.x = params.x,
          .stride = params.x_stride,
          .scales = params.x_scales,
          .k = static_cast<std::int32_t>(params.k),
          .aligned = reinterpret_cast<std::uintptr_t>(params.x) % kChunk == 0 &&
                     (params.m == 1 || params.x_stride * x_bytes % kChunk == 0),
          .saturate = params.non_finite == NonFinite::saturate,
          .report = cuda::report_of(launch)};
}
// Launches a kernel that quantizes floats to int8 in the workspace, and makes `tokens` describe the result.
template <class E>
int quantize_first(Tokens& tokens, const Params& params, std::byte* workspace, bool dependent,
                   const cuda::Launch& launch) {
  auto* scales = reinterpret_cast<float*>(workspace + params.m * token_pitch(params.k));
  const int failed = launch_quantize<E>(tokens, params.m, workspace, scales, dependent, launch);
  tokens.x = workspace;
  tokens.stride = token_pitch(params.k);
  tokens.scales = scales;
  tokens.k = static_cast<std::int32_t>(ceil_div(params.k, kChunk) * kChunk);
  tokens.aligned = true;
  return failed;
}

}  // namespace
}  // namespace tern::linear
