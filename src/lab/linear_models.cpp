// BitNet-b1.58-2B-4T: 30 layers, hidden 2560, 20 heads and 5 key-value heads of 128, feed-forward 6912.
#include "lab/linear_models.h"

#include "base/errors.h"

namespace tern::lab {
namespace {

Linear::Problem problem(const BenchRequest& request, DType x, std::int64_t k, std::vector<Linear::Matrix> matrices) {
  return {.m_max = request.m.value_or(1),
          .k = k,
          .x_dtype = x,
          .math = request.math,
          .format = request.format.value_or(Format::i2),
          .matrices = std::move(matrices)};
}

ModelCase bitnet_2b(const BenchRequest& request, DType x) {
  const auto one = [&](std::int64_t n) { return Linear::Matrix{.n = n, .y_dtype = request.y_dtype}; };
  Linear::Matrix gate = one(6912);
  gate.activation = Activation::squared_relu;
  constexpr std::int64_t kLayers = 30;
  return {.name = "bitnet-2b",
          .m = request.m.value_or(1),
          .x_dtype = x,
          .problems = {{problem(request, x, 2560, {one(2560), one(640), one(640)}), kLayers},
                       {problem(request, x, 2560, {one(2560)}), kLayers},
                       {problem(request, x, 2560, {gate, one(6912)}), kLayers},
                       {problem(request, x, 6912, {one(2560)}), kLayers}}};
}

}  // namespace

Result<std::vector<ModelCase>> linear_models(const BenchRequest& request) {
  if (request.model != "bitnet-2b")
    return error(Code::invalid_argument, "BenchRequest::model", "'{}' is not a known model; known is bitnet-2b",
                 request.model);
  if (request.rows != 0) return error(Code::invalid_argument, "bench", "either a model or a shape, not both");
  std::vector<ModelCase> cases;
  if (request.dtype) return std::vector{bitnet_2b(request, *request.dtype)};
  if (request.math == LinearMath::w2a8) cases.push_back(bitnet_2b(request, DType::i8));
  cases.push_back(bitnet_2b(request, DType::f32));
  return cases;
}

}  // namespace tern::lab
