// What the models of all ops have in common.
#include "lab/models.h"

#include "base/errors.h"
#include "base/words.h"

namespace tern::lab {

Status check_model(const BenchRequest& request, std::span<const std::string_view> known) {
  if (std::ranges::find(known, request.model) == known.end())
    return error(Code::invalid_argument, "BenchRequest::model", "'{}' is not a known model; known {} {}", request.model,
                 known.size() == 1 ? "is" : "are", listed(known));
  if (request.rows != 0 || request.window)
    return error(Code::invalid_argument, "bench", "either a model or a shape, not both");
  return {};
}

std::vector<DType> x_dtypes(const BenchRequest& request) {
  if (request.dtype) return {*request.dtype};
  if (request.math == LinearMath::w2a8) return {DType::i8, DType::f32};
  return {DType::f32};
}

}  // namespace tern::lab
