// BitNet-b1.58-2B-4T: 30 layers, hidden 2560, 20 heads and 5 key-value heads of 128, feed-forward 6912.
#include "base/errors.h"
#include "lab/models.h"

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
          .layers = "ternary layers",
          .item = "token",
          .m = request.m.value_or(1),
          .x_dtype = x,
          .problems = {model_problem<Linear>(problem(request, x, 2560, {one(2560), one(640), one(640)}), kLayers),
                       model_problem<Linear>(problem(request, x, 2560, {one(2560)}), kLayers),
                       model_problem<Linear>(problem(request, x, 2560, {gate, one(6912)}), kLayers),
                       model_problem<Linear>(problem(request, x, 6912, {one(2560)}), kLayers)}};
}

}  // namespace

template <>
Result<std::vector<ModelCase>> models_of<Linear>(const BenchRequest& request) {
  constexpr std::string_view kKnown[] = {"bitnet-2b"};
  TERN_RETURN_IF_ERROR(check_model(request, kKnown));
  std::vector<ModelCase> cases;
  for (const DType x : x_dtypes(request)) cases.push_back(bitnet_2b(request, x));
  return cases;
}

}  // namespace tern::lab
