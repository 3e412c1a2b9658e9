// What becomes of each tensor of a model: a pure function of its list of tensors.
#pragma once

#include <span>
#include <string>

#include "tern/model.h"

namespace tern {

struct PlanInput {
  std::span<const ModelTensor> tensors;
  Container container = Container::safetensors;
  const Metadata& metadata;
  std::string_view config_json;
  std::string config_path = "config.json";  // for errors
};
Result<ModelPlan> plan_tensors(const PlanInput& input, const std::string& output, const WriteOptions& options);

// A tensor of the output and its companion of scales, in that order, as the container stores them.
std::vector<StoredTensor> stored_tensors(const ModelPlan& plan, std::span<const ModelTensor> tensors);

}  // namespace tern
