// What the handles of plans consist of, and the arguments of linear.
#pragma once

#include <array>

#include "api/c_handles.h"

namespace tern::c {

// What a plan says of itself, as a C struct with the storage that it points to.
struct PlanFace : Pinned {
  PlanFace(PlanId of, const Guarantee& promised, const std::optional<Tuning>& tuned);

  PlanId id;
  Guarantee guarantee;
  std::string text, math, accumulator;
  bool has_tuning;
  tern_tuning tuning;
  tern_plan_info info;
};

template <class Op>
struct PlanHandle {
  explicit PlanHandle(Plan<Op> from) : plan(std::move(from)), face(plan.id(), plan.guarantee(), plan.tuning()) {}

  Plan<Op> plan;
  PlanFace face;
};

// Linear::Args together with the outputs that its span refers to. The Args are valid as long as this object lives.
struct LinearArgs {
  ConstTensorView x;
  ConstTensorView x_scales;
  std::array<Linear::Output, Linear::kMaxMatrices> outputs;
  std::size_t count = 0;
  // NOLINTNEXTLINE(google-explicit-constructor): used where other ops have plain Args
  operator Linear::Args() const { return {.x = x, .x_scales = x_scales, .outputs = std::span(outputs).first(count)}; }
};
Result<std::vector<Linear::Matrix>> to_matrices(const char* where, const tern_linear_matrix* given, std::size_t count);
Result<LinearArgs> to_cpp(const char* where, const tern_linear_args* args);

std::string text_of(const Explanation& explanation);
inline Result<std::string> text_of(const Result<Explanation>& explanation) {
  if (!explanation.ok()) return explanation.error();
  return text_of(*explanation);
}

}  // namespace tern::c
