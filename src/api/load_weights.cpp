// Layers straight from checkpoints.
#include "base/errors.h"
#include "tern/linear.h"
#include "tern/model.h"

namespace tern {

Result<PackedWeights> load_weights(const Context& context, const Model& model, std::string_view tensor) {
  const auto index = model.find(tensor);
  if (!index)
    return error(Code::invalid_argument, "load_weights", "there is no tensor '{}' in '{}'", escaped(tensor, 100),
                 model.checkpoint().path());
  TERN_ASSIGN(weights, model.read(context, *index));
  return PackedWeights::pack(context, weights);
}

Result<BitLinear> BitLinear::load(const Context& context, const std::string& path, std::string_view tensor,
                                  const BitLinearOptions& options) {
  TERN_ASSIGN(model, Model::open(path));
  TERN_ASSIGN(weights, load_weights(context, model, tensor));
  return make(context, std::move(weights), options);
}

}  // namespace tern
