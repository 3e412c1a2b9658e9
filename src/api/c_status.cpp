// The C ABI: the version, words and their names, and the last error of each thread.
#include "api/c_abi.h"

namespace tern::c {
namespace {

#define TERN_SAME(c_value, cpp_value) static_assert(static_cast<int>(c_value) == static_cast<int>(cpp_value))
TERN_SAME(TERN_OK, Code::ok);
TERN_SAME(TERN_INVALID_ARGUMENT, Code::invalid_argument);
TERN_SAME(TERN_EMPTY_INPUT, Code::empty_input);
TERN_SAME(TERN_UNSUPPORTED, Code::unsupported);
TERN_SAME(TERN_NON_FINITE, Code::non_finite);
TERN_SAME(TERN_INVALID_QUANTIZED_VALUE, Code::invalid_quantized_value);
TERN_SAME(TERN_INVALID_SCALE, Code::invalid_scale);
TERN_SAME(TERN_QUALITY_BELOW_LIMIT, Code::quality_below_limit);
TERN_SAME(TERN_MEMORY_ALLOCATION, Code::memory_allocation);
TERN_SAME(TERN_INSUFFICIENT_MEMORY, Code::insufficient_memory);
TERN_SAME(TERN_GPU_NOT_AVAILABLE, Code::gpu_not_available);
TERN_SAME(TERN_KERNEL_LAUNCH, Code::kernel_launch);
TERN_SAME(TERN_IO_ERROR, Code::io_error);
TERN_SAME(TERN_CORRUPT_FILE, Code::corrupt_file);
TERN_SAME(TERN_INTERNAL, Code::internal);

TERN_SAME(TERN_DTYPE_F32, DType::f32);
TERN_SAME(TERN_DTYPE_F64, DType::f64);
TERN_SAME(TERN_DTYPE_F16, DType::f16);
TERN_SAME(TERN_DTYPE_BF16, DType::bf16);
TERN_SAME(TERN_DTYPE_I8, DType::i8);
TERN_SAME(TERN_DTYPE_U8, DType::u8);
TERN_SAME(TERN_DTYPE_I32, DType::i32);
TERN_SAME(TERN_SCHEME_ABSMEAN, Scheme::absmean);
TERN_SAME(TERN_SCHEME_ABSMAX, Scheme::absmax);
TERN_SAME(TERN_SCHEME_MSE, Scheme::mse);
TERN_SAME(TERN_SCHEME_INT2, Scheme::int2);
TERN_SAME(TERN_FORMAT_I2, Format::i2);
TERN_SAME(TERN_FORMAT_S2, Format::s2);
TERN_SAME(TERN_FORMAT_I8, Format::i8);
TERN_SAME(TERN_FORMAT_B3, Format::b3);
TERN_SAME(TERN_FORMAT_S8, Format::s8);
TERN_SAME(TERN_FORMAT_U8, Format::u8);
TERN_SAME(TERN_FORMAT_S4, Format::s4);
TERN_SAME(TERN_FORMAT_U4, Format::u4);
TERN_SAME(TERN_FORMAT_U2, Format::u2);
TERN_SAME(TERN_NON_FINITE_REJECT, NonFinite::reject);
TERN_SAME(TERN_NON_FINITE_SATURATE, NonFinite::saturate);
TERN_SAME(TERN_GRANULARITY_TENSOR, Granularity::Kind::tensor);
TERN_SAME(TERN_GRANULARITY_ROW, Granularity::Kind::row);
TERN_SAME(TERN_GRANULARITY_GROUP, Granularity::Kind::group);
TERN_SAME(TERN_AFFINE_TENSOR, AffineGranularity::Kind::tensor);
TERN_SAME(TERN_AFFINE_CHANNEL, AffineGranularity::Kind::channel);
TERN_SAME(TERN_AFFINE_TOKEN, AffineGranularity::Kind::token);
TERN_SAME(TERN_AFFINE_GROUP, AffineGranularity::Kind::group);
TERN_SAME(TERN_AFFINE_MATH_DIVISION, AffineMath::division);
TERN_SAME(TERN_AFFINE_MATH_RECIPROCAL, AffineMath::reciprocal);
TERN_SAME(TERN_AFFINE_MATH_TORCH_CUDA, AffineMath::torch_cuda);
TERN_SAME(TERN_QPARAMS_MINMAX, QparamsMethod::minmax);
TERN_SAME(TERN_QPARAMS_ABSMAX, QparamsMethod::absmax);
TERN_SAME(TERN_QPARAMS_PERCENTILE, QparamsMethod::percentile);
TERN_SAME(TERN_QPARAMS_MSE, QparamsMethod::mse);
TERN_SAME(TERN_ACTIVATION_NONE, Activation::none);
TERN_SAME(TERN_ACTIVATION_SQUARED_RELU, Activation::squared_relu);
TERN_SAME(TERN_LINEAR_MATH_W2A8, LinearMath::w2a8);
TERN_SAME(TERN_LINEAR_MATH_W2_FLOAT, LinearMath::w2_float);
TERN_SAME(TERN_LAYOUT_MS_GPU, Layout::ms_gpu);
TERN_SAME(TERN_LAYOUT_I2, Layout::i2);
TERN_SAME(TERN_LAYOUT_B3, Layout::b3);
TERN_SAME(TERN_LAYOUT_HF_PACKED, Layout::hf_packed);
TERN_SAME(TERN_LAYOUT_I2_S_X86_128, Layout::i2_s_x86_128);
TERN_SAME(TERN_LAYOUT_I2_S_ARM_64, Layout::i2_s_arm_64);
TERN_SAME(TERN_LAYOUT_I2_S_1X4, Layout::i2_s_1x4);
TERN_SAME(TERN_LAYOUT_TL1, Layout::tl1);
TERN_SAME(TERN_LAYOUT_TL2, Layout::tl2);
TERN_SAME(TERN_LAYOUT_TQ1_0, Layout::tq1_0);
TERN_SAME(TERN_LAYOUT_TQ2_0, Layout::tq2_0);
TERN_SAME(TERN_CONTAINER_SAFETENSORS, Container::safetensors);
TERN_SAME(TERN_CONTAINER_GGUF, Container::gguf);
TERN_SAME(TERN_META_U8, MetaKind::u8);
TERN_SAME(TERN_META_I8, MetaKind::i8);
TERN_SAME(TERN_META_U16, MetaKind::u16);
TERN_SAME(TERN_META_I16, MetaKind::i16);
TERN_SAME(TERN_META_U32, MetaKind::u32);
TERN_SAME(TERN_META_I32, MetaKind::i32);
TERN_SAME(TERN_META_F32, MetaKind::f32);
TERN_SAME(TERN_META_STRING, MetaKind::string);
TERN_SAME(TERN_META_ARRAY, MetaKind::array);
TERN_SAME(TERN_META_U64, MetaKind::u64);
TERN_SAME(TERN_META_I64, MetaKind::i64);
TERN_SAME(TERN_META_F64, MetaKind::f64);
TERN_SAME(TERN_META_BOOL, MetaKind::boolean);
TERN_SAME(TERN_ACTION_QUANTIZE, Action::quantize);
TERN_SAME(TERN_ACTION_REPACK, Action::repack);
TERN_SAME(TERN_ACTION_CAST, Action::cast);
TERN_SAME(TERN_ACTION_COPY, Action::copy);
TERN_SAME(TERN_ACTION_DROP, Action::drop);
TERN_SAME(TERN_DIFFERENCE_EQUAL, TensorDifference::Kind::equal);
TERN_SAME(TERN_DIFFERENCE_DIFFERS, TensorDifference::Kind::differs);
TERN_SAME(TERN_DIFFERENCE_ONLY_IN_A, TensorDifference::Kind::only_in_a);
TERN_SAME(TERN_DIFFERENCE_ONLY_IN_B, TensorDifference::Kind::only_in_b);
TERN_SAME(TERN_WEIGHT_SCALE_MULTIPLIES, WeightScale::multiplies);
TERN_SAME(TERN_WEIGHT_SCALE_DIVIDES, WeightScale::divides);
TERN_SAME(TERN_PRECISION_AUTO, Precision::automatic);
TERN_SAME(TERN_PRECISION_F32, Precision::f32);
TERN_SAME(TERN_PRECISION_F16, Precision::f16);
TERN_SAME(TERN_PRECISION_BF16, Precision::bf16);
TERN_SAME(TERN_GRID_AUTO, GridStrategy::automatic);
TERN_SAME(TERN_GRID_FIXED, GridStrategy::fixed);
TERN_SAME(TERN_GRID_OCCUPANCY, GridStrategy::occupancy);
TERN_SAME(TERN_DEVICE_CPU, DeviceKind::cpu);
TERN_SAME(TERN_DEVICE_CUDA, DeviceKind::cuda);

TERN_SAME(TERN_CAPABILITY_X86_SSE41, Capability::x86_sse41);
TERN_SAME(TERN_CAPABILITY_X86_AVX2, Capability::x86_avx2);
TERN_SAME(TERN_CAPABILITY_X86_AVX_VNNI, Capability::x86_avx_vnni);
TERN_SAME(TERN_CAPABILITY_X86_AVX512, Capability::x86_avx512);
TERN_SAME(TERN_CAPABILITY_X86_AVX512VNNI, Capability::x86_avx512vnni);
TERN_SAME(TERN_CAPABILITY_X86_AMX_INT8, Capability::x86_amx_int8);
TERN_SAME(TERN_CAPABILITY_ARM_NEON, Capability::arm_neon);
TERN_SAME(TERN_CAPABILITY_ARM_DOTPROD, Capability::arm_dotprod);
TERN_SAME(TERN_CAPABILITY_ARM_I8MM, Capability::arm_i8mm);
TERN_SAME(TERN_CAPABILITY_SM_75, Capability::sm_75);
TERN_SAME(TERN_CAPABILITY_SM_80, Capability::sm_80);
TERN_SAME(TERN_CAPABILITY_SM_90, Capability::sm_90);
TERN_SAME(TERN_CAPABILITY_SM_90A, Capability::sm_90a);
TERN_SAME(TERN_CAPABILITY_SM_100, Capability::sm_100);
TERN_SAME(TERN_CAPABILITY_SM_120, Capability::sm_120);
TERN_SAME(TERN_CAPABILITY_X86_AVX512VBMI, Capability::x86_avx512vbmi);
static_assert(TERN_CAPABILITY_X86_AVX512VBMI + 1 == kCapabilityCount,
              "a new capability needs its line here and in tern_c.h");
#undef TERN_SAME

struct LastError {
  Error error;
  std::string text;
  tern_error face{sizeof(tern_error), TERN_OK, "", "", "", -1};
};

LastError& last_error() {
  thread_local LastError last;
  return last;
}

}  // namespace

tern_status report(Error error) noexcept {
  LastError& last = last_error();
  const auto status = static_cast<tern_status>(error.code);
  try {
    last.text = error.str();
  } catch (...) {
    return report_literal(status, "memory for the message ran out", "tern_last_error");
  }
  last.error = std::move(error);
  last.face = {sizeof(tern_error), status,          last.error.message.c_str(), last.error.where.c_str(),
               last.text.c_str(),  last.error.index};
  return status;
}

tern_status report_literal(tern_status status, const char* message, const char* where) noexcept {
  last_error().error.details = {};
  last_error().face = {sizeof(tern_error), status, message, where, message, -1};
  return status;
}

Status not_null(const char* where, std::initializer_list<Parameter> parameters) {
  for (const auto& [parameter, value] : parameters)
    if (value == nullptr) return error(Code::invalid_argument, where, "{} is NULL", parameter);
  return {};
}

Status write_text(const char* where, const std::string& text, char* buffer, std::size_t buffer_bytes,
                  std::size_t* length) {
  TERN_RETURN_IF_ERROR(not_null(where, {{"length", length}}));
  if (buffer == nullptr && buffer_bytes != 0)
    return error(Code::invalid_argument, where, "buffer is NULL but buffer_bytes is {}", buffer_bytes);
  *length = text.size();
  if (buffer_bytes == 0) return {};
  const std::size_t copied = std::min(text.size(), buffer_bytes - 1);
  std::memcpy(buffer, text.data(), copied);
  buffer[copied] = '\0';
  return {};
}

}  // namespace tern::c

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

const char* tern_version(void) { return tern::version(); }
const tern_error* tern_last_error(void) { return &last_error().face; }

int32_t tern_last_error_memory(uint64_t* needed_bytes, uint64_t* free_bytes) {
  const auto* shortage = last_error().error.as<MemoryShortage>();
  if (shortage == nullptr) return 0;
  if (needed_bytes != nullptr) *needed_bytes = shortage->needed_bytes;
  if (free_bytes != nullptr) *free_bytes = shortage->free_bytes;
  return 1;
}
int32_t tern_last_error_cuda(const char** kernel, int32_t* code) {
  const auto* failure = last_error().error.as<CudaFailure>();
  if (failure == nullptr) return 0;
  if (kernel != nullptr) *kernel = failure->kernel.c_str();
  if (code != nullptr) *code = failure->code;
  return 1;
}
int32_t tern_last_error_value(double* value, double* lowest, double* highest) {
  const auto* invalid = last_error().error.as<InvalidValue>();
  if (invalid == nullptr) return 0;
  if (value != nullptr) *value = invalid->value;
  if (lowest != nullptr) *lowest = invalid->lowest;
  if (highest != nullptr) *highest = invalid->highest;
  return 1;
}

const char* tern_status_name(tern_status status) { return word(status, Code::internal); }
const char* tern_dtype_name(tern_dtype dtype) { return word(dtype, kLastDType); }
const char* tern_scheme_name(tern_scheme scheme) { return word(scheme, kLastScheme); }
const char* tern_format_name(tern_format format) {
  return format == TERN_FORMAT_DEFAULT ? "default" : word(format, kLastFormat);
}
const char* tern_non_finite_name(tern_non_finite policy) { return word(policy, kLastNonFinite); }
const char* tern_activation_name(tern_activation activation) { return word(activation, kLastActivation); }
const char* tern_linear_math_name(tern_linear_math math) { return word(math, kLastLinearMath); }
const char* tern_layout_name(tern_layout layout) { return word(layout, kLastLayout); }
const char* tern_precision_name(tern_precision precision) { return word(precision, kLastPrecision); }
const char* tern_grid_strategy_name(tern_grid_strategy grid) { return word(grid, kLastGridStrategy); }
const char* tern_container_name(tern_container container) { return word(container, kLastContainer); }
const char* tern_action_name(tern_action action) { return word(action, kLastAction); }
const char* tern_difference_name(tern_difference kind) { return word(kind, TensorDifference::Kind::only_in_b); }
const char* tern_weight_scale_name(tern_weight_scale scale) { return word(scale, kLastWeightScale); }
const char* tern_capability_name(tern_capability capability) {
  return word(capability, static_cast<Capability>(kCapabilityCount - 1));
}

tern_status tern_dtype_parse(const char* text, tern_dtype* out) {
  return parse("tern_dtype_parse", text, out, parse_dtype);
}
tern_status tern_scheme_parse(const char* text, tern_scheme* out) {
  return parse("tern_scheme_parse", text, out, parse_scheme);
}
tern_status tern_format_parse(const char* text, tern_format* out) {
  return parse("tern_format_parse", text, out, parse_format);
}
tern_status tern_non_finite_parse(const char* text, tern_non_finite* out) {
  return parse("tern_non_finite_parse", text, out, parse_non_finite);
}
tern_status tern_activation_parse(const char* text, tern_activation* out) {
  return parse("tern_activation_parse", text, out, parse_activation);
}
tern_status tern_linear_math_parse(const char* text, tern_linear_math* out) {
  return parse("tern_linear_math_parse", text, out, parse_linear_math);
}
tern_status tern_layout_parse(const char* text, tern_layout* out) {
  return parse("tern_layout_parse", text, out, parse_layout);
}
tern_status tern_container_parse(const char* text, tern_container* out) {
  return parse("tern_container_parse", text, out, parse_container);
}
tern_status tern_precision_parse(const char* text, tern_precision* out) {
  return parse("tern_precision_parse", text, out, parse_precision);
}
tern_status tern_grid_strategy_parse(const char* text, tern_grid_strategy* out) {
  return parse("tern_grid_strategy_parse", text, out, parse_grid_strategy);
}
tern_status tern_capability_parse(const char* text, tern_capability* out) {
  return parse("tern_capability_parse", text, out, parse_capability);
}
tern_status tern_granularity_parse(const char* text, tern_granularity* out) {
  return parse("tern_granularity_parse", text, out, parse_granularity, from_granularity);
}
tern_status tern_device_parse(const char* text, tern_device_id* out) {
  return parse("tern_device_parse", text, out, parse_device, from_device);
}

size_t tern_dtype_bytes(tern_dtype dtype) {
  const auto known = to_enum("tern_dtype_bytes", "dtype", dtype, kLastDType);
  return known.ok() ? size_of(*known) : 0;
}
