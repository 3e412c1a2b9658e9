// What write_model() checks before it writes anything.
#pragma once

#include <string>

#include "tern/model.h"

namespace tern {

// Checks that the plan was made for this model, or for one with the same tensors.
Status check_fits(const ModelPlan& plan, const Model& model);
// The output must not be a file that the model is read from: a shard, the index, or config.json.
Status check_output(const Model& model, const std::string& output);

}  // namespace tern
