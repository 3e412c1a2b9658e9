// The C ABI: packed weights as handles, and the conversion of linear's problem and arguments to C++.
#include "api/c_abi.h"

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

Result<std::span<std::byte>> to_memory(const char* where, void* memory, std::size_t memory_bytes) {
  if (memory == nullptr && memory_bytes != 0)
    return error(Code::invalid_argument, where, "memory is NULL but memory_bytes is {}", memory_bytes);
  return std::span(static_cast<std::byte*>(memory), memory_bytes);
}

}  // namespace

Status make_packed_weights(PackedWeights weights, tern_packed_weights** out) {
  auto made = std::make_unique<tern_packed_weights>();
  made->weights = std::move(weights);
  made->tile = made->weights.tile();
  made->info = {.struct_size = sizeof(tern_packed_weights_info),
                .n = made->weights.n(),
                .k = made->weights.k(),
                .granularity = from_granularity(made->weights.granularity()),
                .bytes = made->weights.bytes(),
                .checksum = made->weights.checksum(),
                .tile = made->tile.c_str(),
                .format = static_cast<tern_format>(made->weights.format())};
  *out = made.release();
  return {};
}

Result<Linear::Problem> to_problem(const char* where, const tern_linear_problem* problem) {
  TERN_ASSIGN(given, read_struct(where, "problem", problem));
  TERN_ASSIGN(x_dtype, to_enum(where, "problem->x_dtype", given.x_dtype, kLastDType));
  TERN_ASSIGN(math, to_enum(where, "problem->math", given.math, kLastLinearMath));
  TERN_ASSIGN(non_finite, to_enum(where, "problem->non_finite", given.non_finite, kLastNonFinite));
  TERN_ASSIGN(format, to_enum(where, "problem->format", given.format, kLastFormat));
  TERN_RETURN_IF_ERROR(
      check_array(where, "problem->matrices", given.matrices, "problem->matrix_count", given.matrix_count));
  Linear::Problem cpp{
      .m_max = given.m_max, .k = given.k, .x_dtype = x_dtype, .math = math, .non_finite = non_finite, .format = format};
  for (std::size_t i = 0; i < given.matrix_count; ++i) {
    TERN_ASSIGN(given_matrix, read_element(where, "problem->matrices", given.matrices, i));
    TERN_ASSIGN(matrix, to_matrix(where, given_matrix, i));
    cpp.matrices.push_back(matrix);
  }
  return cpp;
}

Result<LinearArgs> to_args(const char* where, const tern_linear_args* args) {
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

tern_status tern_packed_weights_bytes(int64_t n, int64_t k, tern_granularity granularity, tern_format format,
                                      size_t* out) {
  return guarded("tern_packed_weights_bytes", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"out", out}}));
    TERN_ASSIGN(cpp_granularity, to_granularity(where, granularity));
    TERN_ASSIGN(cpp_format, to_enum(where, "format", format, kLastFormat));
    TERN_ASSIGN(bytes, PackedWeights::packed_bytes(n, k, cpp_granularity, cpp_format));
    *out = bytes;
    return {};
  });
}

tern_status tern_packed_weights_bytes_on(const tern_context* context, int64_t n, int64_t k,
                                         tern_granularity granularity, tern_format format, size_t* out) {
  return guarded("tern_packed_weights_bytes_on", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"context", context}, {"out", out}}));
    TERN_ASSIGN(cpp_granularity, to_granularity(where, granularity));
    TERN_ASSIGN(cpp_format, to_enum(where, "format", format, kLastFormat));
    TERN_ASSIGN(bytes, PackedWeights::packed_bytes(context->context, n, k, cpp_granularity, cpp_format));
    *out = bytes;
    return {};
  });
}

tern_status tern_packed_weights_create(const tern_context* context, const tern_tensor_view* codes,
                                       const tern_tensor_view* scales, int64_t n, int64_t k,
                                       tern_granularity granularity, tern_format format, void* memory,
                                       size_t memory_bytes, tern_packed_weights** out) {
  return guarded("tern_packed_weights_create", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}, {"codes", codes}, {"scales", scales}}));
    TERN_ASSIGN(cpp_codes, to_view(where, "codes", *codes));
    TERN_ASSIGN(cpp_scales, to_view(where, "scales", *scales));
    TERN_ASSIGN(cpp_granularity, to_granularity(where, granularity));
    TERN_ASSIGN(cpp_format, to_enum(where, "format", format, kLastFormat));
    TERN_ASSIGN(cpp_memory, to_memory(where, memory, memory_bytes));
    const ParallelForWatch watch;
    TERN_ASSIGN(weights, PackedWeights::pack(context->context, cpp_codes, cpp_scales, n, k, cpp_granularity, cpp_memory,
                                             cpp_format));
    TERN_RETURN_IF_ERROR(watch.status(where));
    return make_packed_weights(std::move(weights), out);
  });
}

tern_status tern_packed_weights_create_from_quantized(const tern_context* context, const tern_quantized* quantized,
                                                      void* memory, size_t memory_bytes, tern_packed_weights** out) {
  return guarded("tern_packed_weights_create_from_quantized", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}, {"quantized", quantized}}));
    TERN_ASSIGN(cpp_memory, to_memory(where, memory, memory_bytes));
    const ParallelForWatch watch;
    TERN_ASSIGN(weights, PackedWeights::pack(context->context, quantized->tensor, cpp_memory));
    TERN_RETURN_IF_ERROR(watch.status(where));
    return make_packed_weights(std::move(weights), out);
  });
}

tern_status tern_packed_weights_create_from_layout(const tern_context* context, const tern_layout_spec* spec,
                                                   const void* bytes, size_t byte_count, int64_t n, int64_t k,
                                                   const float* scales, size_t scale_count,
                                                   tern_granularity granularity, void* memory, size_t memory_bytes,
                                                   tern_packed_weights** out) {
  return guarded("tern_packed_weights_create_from_layout", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}, {"spec", spec}}));
    TERN_ASSIGN(cpp_spec, to_spec(where, spec));
    TERN_ASSIGN(cpp_bytes, to_array<const std::uint8_t>(where, "bytes", bytes, "byte_count", byte_count));
    TERN_ASSIGN(cpp_scales, to_array<const float>(where, "scales", scales, "scale_count", scale_count));
    TERN_ASSIGN(cpp_granularity, to_granularity(where, granularity));
    TERN_ASSIGN(cpp_memory, to_memory(where, memory, memory_bytes));
    const ParallelForWatch watch;
    TERN_ASSIGN(weights, PackedWeights::pack(context->context, cpp_spec, cpp_bytes, n, k, cpp_scales, cpp_granularity,
                                             cpp_memory));
    TERN_RETURN_IF_ERROR(watch.status(where));
    return make_packed_weights(std::move(weights), out);
  });
}

tern_status tern_packed_weights_get_info(const tern_packed_weights* weights, const tern_packed_weights_info** out) {
  return hand_out("tern_packed_weights_get_info", "weights", weights, &tern_packed_weights::info, out);
}

void tern_packed_weights_destroy(tern_packed_weights* weights) { delete weights; }

tern_status tern_w2a8_gemv(const tern_context* context, const tern_packed_weights* weights, const tern_tensor_view* a,
                           const tern_tensor_view* out, int64_t m, int64_t k, int32_t stream_index) {
  return guarded("tern_w2a8_gemv", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"context", context}, {"weights", weights}, {"a", a}, {"out", out}}));
    TERN_ASSIGN(cpp_a, to_view(where, "a", *a));
    TERN_ASSIGN(cpp_out, to_view(where, "out", *out));
    const ParallelForWatch watch;
    TERN_RETURN_IF_ERROR(w2a8_gemv(context->context, weights->weights, cpp_a, cpp_out, m, k, stream_index));
    return watch.status(where);
  });
}
