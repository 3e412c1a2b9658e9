// Checks a plan against its model, and an output against the inputs.
#include "model/write_checks.h"

#include "base/errors.h"
#include "io/file_error.h"
#include "io/output_file.h"
#include "model/model_config.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "write_model";

}  // namespace

Status check_fits(const ModelPlan& plan, const Model& model) {
  const std::span<const ModelTensor> tensors = model.tensors();
  for (const TensorPlan& tensor : plan.tensors) {
    if (tensor.input >= tensors.size())
      return error(Code::invalid_argument, kWhere, "the plan reads tensor {} of a model that has {}; plan this model",
                   tensor.input, tensors.size());
    const ModelTensor& input = tensors[tensor.input];
    if (tensor.input_name != input.name || tensor.input_type != input.type || tensor.in_bytes != input.bytes)
      return error(Code::invalid_argument, kWhere,
                   "the plan reads '{}', {} of {} bytes, where this model has '{}', {} of {}; plan this model",
                   escaped(tensor.input_name), name(tensor.input_type), tensor.in_bytes, escaped(input.name),
                   name(input.type), input.bytes);
  }
  return {};
}

Status check_output(const Model& model, const std::string& output) {
  const std::string& opened = model.checkpoint().path();
  std::vector<std::string> read = {opened, beside(opened, "config.json"),
                                   beside(opened, "model.safetensors.index.json")};
  for (const CheckpointFile& file : model.checkpoint().files()) read.push_back(file.path);
  for (const std::string& path : read)
    if (same_file(path, output))
      return file_error(Code::invalid_argument, kWhere, "'{}' is the input; choose another output", output);
  return {};
}

}  // namespace tern
