// linear with weights of 8 and 4 bits on a GPU: the same kernels as for trits, with another decoding. For .cu files
// only.
#pragma once

#include "ops/linear/cuda_choice.h"
#include "ops/linear/cuda_float.h"
#include "ops/linear/cuda_tuning_report.h"

namespace tern::linear {
namespace {

// Calls f with the weight type of a problem.
template <class F>
int with_wide(const Params& p, F f) {
  return p.format == Format::s8 ? f.template operator()<MmaWeights<8>>() : f.template operator()<MmaWeights<4>>();
}

// The float modes of a generation: int8 tokens with group scales.
template <int kSm>
int launch_wide_modes(const Params& p, std::byte* workspace, const cuda::Launch& launch) {
  return with_wide(p, [&]<class W>() { return float_launch<W, kSm>(p, workspace, launch); });
}
template <int kSm>
constexpr FloatModes wide_modes() {
  return {float_workspace_bytes, float_serves<kSm>, launch_wide_modes<kSm>};
}

// --- generations that have mma.sync and nothing newer ---

template <int kSm>
std::size_t mma_wide_workspace(const Linear::Problem& p) {
  return chosen_workspace(p, wide_modes<kSm>(), token_workspace_bytes(p));
}

template <class Isa, int kSm>
int launch_mma_wide(const Params& all, std::byte* workspace, const cuda::Launch& launch) {
  const auto exact_launch = [](const Params& p, std::byte* scratch, const cuda::Launch& on) {
    return with_wide(p, [&]<class W>() { return mma_launch<W, Isa>(p, scratch, on, mma_tuning(p, on)); });
  };
  return launch_chosen(all, workspace, launch, wide_modes<kSm>(), exact_launch);
}

inline bool report_mma_wide(const Linear::Problem& problem, const cuda::Launch& launch, Tuning& tuning) {
  const Params p = exact_part(problem);
  return report_mma(p, launch, mma_tuning(p, launch), tuning);
}

}  // namespace
}  // namespace tern::linear
