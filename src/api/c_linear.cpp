// The C ABI: packed weights as handles, and the conversion of linear's problem and arguments to C++.
#include "api/c_plan.h"

namespace tern::c {
namespace {

static_assert(TERN_LINEAR_MAX_MATRICES == Linear::kMaxMatrices);

// Checks an array from C and its count before any element is read.
Status check_array(const char* where, const char* array, const void* first, const char* count_name, std::size_t count) {
  if (count > Linear::kMaxMatrices)
    return error(Code::invalid_argument, where, "{} is {}; linear takes up to {} matrices", count_name, count,
                 Linear::kMaxMatrices);
  if (first == nullptr && count != 0)
    return error(Code::invalid_argument, where, "{} is NULL but {} is {}", array, count_name, count);
  return {};
}

Result<Linear::Matrix> to_matrix(const char* where, const tern_linear_matrix& given, std::size_t index) {
  const std::string field = fmt::format("problem->matrices[{}]", index);
  TERN_ASSIGN(kind,
              to_enum(where, field.c_str(), given.granularity.kind, Granularity::Kind::group, ".granularity.kind"));
  TERN_ASSIGN(y_dtype, to_enum(where, field.c_str(), given.y_dtype, kLastDType, ".y_dtype"));
  TERN_ASSIGN(activation, to_enum(where, field.c_str(), given.activation, kLastActivation, ".activation"));
  return Linear::Matrix{.n = given.n,
                        .granularity = {kind, given.granularity.group_size},
                        .y_dtype = y_dtype,
                        .bias = given.bias != 0,
                        .activation = activation,
                        .residual = given.residual != 0};
}

// Formats the name with its index only for an error message: a run converts up to 24 views.
Result<TensorView> to_output_view(const char* where, std::size_t index, const char* member,
                                  const tern_tensor_view& view) {
  Result<TensorView> converted = to_view(where, member, view);
  if (converted.ok()) return converted;
  return to_view(where, fmt::format("args->outputs[{}].{}", index, member).c_str(), view);
}

Result<Linear::Output> to_output(const char* where, const tern_linear_output& given, std::size_t index) {
  if (given.weights == nullptr) return error(Code::invalid_argument, where, "args->outputs[{}].weights is NULL", index);
  TERN_ASSIGN(y, to_output_view(where, index, "y", given.y));
  TERN_ASSIGN(bias, to_output_view(where, index, "bias", given.bias));
  TERN_ASSIGN(residual, to_output_view(where, index, "residual", given.residual));
  return Linear::Output{.weights = given.weights->weights, .y = y, .bias = bias, .residual = residual};
}

}  // namespace

Result<std::vector<Linear::Matrix>> to_matrices(const char* where, const tern_linear_matrix* given, std::size_t count) {
  TERN_RETURN_IF_ERROR(check_array(where, "problem->matrices", given, "problem->matrix_count", count));
  std::vector<Linear::Matrix> matrices;
  for (std::size_t i = 0; i < count; ++i) {
    TERN_ASSIGN(given_matrix, read_element(where, "problem->matrices", given, i));
    TERN_ASSIGN(matrix, to_matrix(where, given_matrix, i));
    matrices.push_back(matrix);
  }
  return matrices;
}

Result<LinearArgs> to_cpp(const char* where, const tern_linear_args* args) {
  TERN_ASSIGN(given, read_struct(where, "args", args));
  TERN_ASSIGN(x, to_view(where, "x", given.x));
  TERN_ASSIGN(x_scales, to_view(where, "x_scales", given.x_scales));
  TERN_RETURN_IF_ERROR(check_array(where, "args->outputs", given.outputs, "args->output_count", given.output_count));
  LinearArgs cpp{.x = x, .x_scales = x_scales, .outputs = {}, .count = given.output_count};
  for (std::size_t i = 0; i < given.output_count; ++i) {
    TERN_ASSIGN(given_output, read_element(where, "args->outputs", given.outputs, i));
    TERN_ASSIGN(output, to_output(where, given_output, i));
    cpp.outputs[i] = std::move(output);
  }
  return cpp;
}

}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

tern_status tern_resolve_precision(const tern_context* context, tern_precision asked, int32_t strict, tern_dtype* used,
                                   int32_t* fell_back, char* buffer, size_t buffer_bytes, size_t* length) {
  return guarded("tern_resolve_precision", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"context", context}, {"used", used}, {"fell_back", fell_back}}));
    TERN_ASSIGN(precision, to_enum(where, "asked", asked, kLastPrecision));
    TERN_ASSIGN(choice, resolve_precision(context->context, precision, strict != 0));
    TERN_RETURN_IF_ERROR(write_text(where, choice.because, buffer, buffer_bytes, length));
    *used = static_cast<tern_dtype>(choice.used);
    *fell_back = choice.fell_back ? 1 : 0;
    return {};
  });
}
