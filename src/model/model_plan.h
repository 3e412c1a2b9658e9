// Plans what to do with each tensor of a model, from its list of tensors alone.
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

// The tensors of the output as the container stores them; each is followed by its tensor of scales, if it has one.
std::vector<StoredTensor> stored_tensors(const ModelPlan& plan, std::span<const ModelTensor> tensors);

}  // namespace tern
