// What the files of the C ABI share: the handles, the guard around every entry point, and the conversions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "tern/tern.h"
#include "tern/tern_c.h"

namespace tern::c {

// Stores the error for tern_last_error() and returns its code.
tern_status report(Error error) noexcept;
tern_status report_literal(tern_status status, const char* message, const char* where) noexcept;  // allocates nothing

// Runs the body of an entry point; nothing it throws reaches the caller.
template <class Body>
tern_status guarded(const char* where, Body&& body) noexcept {
  try {
    Status status = std::forward<Body>(body)(where);
    return status.ok() ? TERN_OK : report(std::move(status).error());
  } catch (const std::bad_alloc&) {
    return report_literal(TERN_MEMORY_ALLOCATION, "memory for the library's own objects ran out", where);
  } catch (...) {
    return report_literal(TERN_INTERNAL, "an exception was thrown inside the library", where);
  }
}

// Notices when a caller's parallel-for did not run each slot exactly once, because then the kernel's output is
// incomplete.
class ParallelForWatch {
 public:
  ParallelForWatch();
  [[nodiscard]] Status status(const char* where) const;
};

struct Parameter {
  const char* name;
  const void* value;
};

// An error that names the first NULL parameter.
Status not_null(const char* where, std::initializer_list<Parameter> parameters);
Status check_index(const char* where, std::size_t index, std::size_t count);

// Begins every call that returns a handle: checks that `out` is not NULL and sets it to NULL, then checks the others.
template <class T>
Status cleared(const char* where, T** out, std::initializer_list<Parameter> parameters) {
  TERN_RETURN_IF_ERROR(not_null(where, {{"out", out}}));
  *out = nullptr;
  return not_null(where, parameters);
}

// Whole entry points: they return a member of a handle, an element of one of its lists, or the length of the list.
template <class Handle, class Member>
tern_status hand_out(const char* where, const char* name, const Handle* handle, Member Handle::*member,
                     const Member** out) {
  return guarded(where, [&](const char*) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{name, handle}}));
    *out = &(handle->*member);
    return {};
  });
}
inline const char* face(const std::string& text) { return text.c_str(); }
template <class T>
const T* face(const T& element) {
  return &element;
}
template <class Handle, class List, class Face>
tern_status hand_out(const char* where, const char* name, const Handle* handle, List Handle::*list, std::size_t index,
                     const Face** out) {
  return guarded(where, [&](const char*) -> Status {
    TERN_RETURN_IF_ERROR(cleared(where, out, {{name, handle}}));
    TERN_RETURN_IF_ERROR(check_index(where, index, (handle->*list).size()));
    *out = face((handle->*list)[index]);
    return {};
  });
}
template <class Handle, class List>
tern_status count_of(const char* where, const char* name, const Handle* handle, List Handle::*list, std::size_t* out) {
  return guarded(where, [&](const char*) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{name, handle}, {"out", out}}));
    *out = (handle->*list).size();
    return {};
  });
}

// Whole entry points that parse a word into a C value.
template <class Out, class Parse, class Convert>
tern_status parse(const char* where, const char* text, Out* out, Parse parse_text, Convert convert) {
  return guarded(where, [&](const char*) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"text", text}, {"out", out}}));
    TERN_ASSIGN(value, parse_text(std::string_view(text)));
    *out = convert(value);
    return {};
  });
}
template <class CEnum, class Parse>
tern_status parse(const char* where, const char* text, CEnum* out, Parse parse_text) {
  return parse(where, text, out, parse_text, [](auto value) { return static_cast<CEnum>(value); });
}

// name() returns string literals, so data() is zero-terminated.
template <class Enum, class CEnum>
const char* word(CEnum value, Enum last) {
  const auto number = static_cast<std::int32_t>(value);
  if (number < 0 || number > static_cast<std::int32_t>(last)) return "unknown";
  return name(static_cast<Enum>(number)).data();
}

// Converts an enum's number from C to the C++ enumerator, which must be one of 0..last. Messages name it as field plus
// member, passed separately so that a successful call builds no strings.
template <class Enum, class CEnum>
Result<Enum> to_enum(const char* where, const char* field, CEnum value, Enum last, const char* member = "") {
  const auto number = static_cast<std::int32_t>(value);
  if (number < 0 || number > static_cast<std::int32_t>(last))
    return error(Code::invalid_argument, where, "{}{} is {}, not one of 0 to {}", field, member, number,
                 static_cast<std::int32_t>(last));
  return static_cast<Enum>(number);
}

inline constexpr DType kLastDType = DType::i32;
inline constexpr Scheme kLastScheme = Scheme::int2;
inline constexpr Format kLastFormat = Format::u2;
inline constexpr NonFinite kLastNonFinite = NonFinite::saturate;
inline constexpr Activation kLastActivation = Activation::squared_relu;
inline constexpr LinearMath kLastLinearMath = LinearMath::w2_float;
inline constexpr Layout kLastLayout = Layout::tq2_0;
inline constexpr Precision kLastPrecision = Precision::bf16;
inline constexpr Container kLastContainer = Container::gguf;
inline constexpr MetaKind kLastMetaKind = MetaKind::f64;
inline constexpr Action kLastAction = Action::drop;
inline constexpr WeightScale kLastWeightScale = WeightScale::divides;
inline constexpr AffineMath kLastAffineMath = AffineMath::torch_cuda;
inline constexpr QparamsMethod kLastQparamsMethod = QparamsMethod::mse;
inline constexpr GridStrategy kLastGridStrategy = GridStrategy::occupancy;

// Structs that grow. `first_bytes` is the size of the first version, which every caller has; `defaults` fills the
// fields that an older caller's struct lacks. A new field must not occupy padding at the end of the old struct, because
// an old caller's padding holds no value.
template <class T>
struct Grows;
#define TERN_C_STRUCT(type, last_field_of_first_version, init)                                   \
  template <>                                                                                    \
  struct Grows<type> {                                                                           \
    static constexpr std::size_t first_bytes =                                                   \
        offsetof(type, last_field_of_first_version) + sizeof(type::last_field_of_first_version); \
    static type defaults() { return init; }                                                      \
  }
TERN_C_STRUCT(tern_observer, run_finished, TERN_OBSERVER_INIT);
TERN_C_STRUCT(tern_context_config, observer, TERN_CONTEXT_CONFIG_INIT);
TERN_C_STRUCT(tern_memory_statistics, failures, TERN_MEMORY_STATISTICS_INIT);
TERN_C_STRUCT(tern_memory_info, in_use_peak_bytes, TERN_MEMORY_INFO_INIT);
TERN_C_STRUCT(tern_tuning, dependent_launch, TERN_TUNING_INIT);
TERN_C_STRUCT(tern_preference, strict, TERN_PREFERENCE_INIT);
TERN_C_STRUCT(tern_quantize_options, preference, TERN_QUANTIZE_OPTIONS_INIT);
TERN_C_STRUCT(tern_quality, zero_fraction, TERN_QUALITY_INIT);
TERN_C_STRUCT(tern_quantized_parts, granularity, TERN_QUANTIZED_PARTS_INIT);
TERN_C_STRUCT(tern_ternary_quantize_problem, scale_given, TERN_TERNARY_QUANTIZE_PROBLEM_INIT);
TERN_C_STRUCT(tern_ternary_quantize_args, given_scale, TERN_TERNARY_QUANTIZE_ARGS_INIT);
TERN_C_STRUCT(tern_ternary_dequantize_problem, format, TERN_TERNARY_DEQUANTIZE_PROBLEM_INIT);
TERN_C_STRUCT(tern_ternary_dequantize_args, y, TERN_TERNARY_DEQUANTIZE_ARGS_INIT);
TERN_C_STRUCT(tern_activation_quantize_problem, non_finite, TERN_ACTIVATION_QUANTIZE_PROBLEM_INIT);
TERN_C_STRUCT(tern_activation_quantize_args, sums, TERN_ACTIVATION_QUANTIZE_ARGS_INIT);
TERN_C_STRUCT(tern_linear_matrix, residual, TERN_LINEAR_MATRIX_INIT);
TERN_C_STRUCT(tern_linear_problem, matrix_count, TERN_LINEAR_PROBLEM_INIT);
TERN_C_STRUCT(tern_linear_output, residual, TERN_LINEAR_OUTPUT_INIT);
TERN_C_STRUCT(tern_linear_args, output_count, TERN_LINEAR_ARGS_INIT);
TERN_C_STRUCT(tern_layout_spec, block_rows, TERN_LAYOUT_SPEC_INIT);
TERN_C_STRUCT(tern_layout_size, scale_count, TERN_LAYOUT_SIZE_INIT);
TERN_C_STRUCT(tern_scale_loss, index, TERN_SCALE_LOSS_INIT);
TERN_C_STRUCT(tern_i2_s_evidence, scale, TERN_I2_S_EVIDENCE_INIT);
TERN_C_STRUCT(tern_affine_quantize_problem, even_groups, TERN_AFFINE_QUANTIZE_PROBLEM_INIT);
TERN_C_STRUCT(tern_affine_quantize_args, codes, TERN_AFFINE_QUANTIZE_ARGS_INIT);
TERN_C_STRUCT(tern_affine_dequantize_problem, even_groups, TERN_AFFINE_DEQUANTIZE_PROBLEM_INIT);
TERN_C_STRUCT(tern_affine_dequantize_args, y, TERN_AFFINE_DEQUANTIZE_ARGS_INIT);
TERN_C_STRUCT(tern_stored_type_info, dtype, TERN_STORED_TYPE_INFO_INIT);
TERN_C_STRUCT(tern_stored_tensor, bytes, TERN_STORED_TENSOR_INIT);
TERN_C_STRUCT(tern_open_options, gguf_type_count, TERN_OPEN_OPTIONS_INIT);
TERN_C_STRUCT(tern_read_options, kernel_config, TERN_READ_OPTIONS_INIT);
TERN_C_STRUCT(tern_write_options, histograms, TERN_WRITE_OPTIONS_INIT);
TERN_C_STRUCT(tern_fake_quantize_problem, strict, TERN_FAKE_QUANTIZE_PROBLEM_INIT);
TERN_C_STRUCT(tern_fake_quantize_args, mask, TERN_FAKE_QUANTIZE_ARGS_INIT);
TERN_C_STRUCT(tern_fake_quantize_backward_problem, grad_factor, TERN_FAKE_QUANTIZE_BACKWARD_PROBLEM_INIT);
TERN_C_STRUCT(tern_fake_quantize_backward_args, grad_zero_points, TERN_FAKE_QUANTIZE_BACKWARD_ARGS_INIT);
TERN_C_STRUCT(tern_choose_qparams_problem, even_groups, TERN_CHOOSE_QPARAMS_PROBLEM_INIT);
TERN_C_STRUCT(tern_choose_qparams_args, zero_points, TERN_CHOOSE_QPARAMS_ARGS_INIT);
TERN_C_STRUCT(tern_dynamic_quantize_problem, even_groups, TERN_DYNAMIC_QUANTIZE_PROBLEM_INIT);
TERN_C_STRUCT(tern_dynamic_quantize_args, zero_points, TERN_DYNAMIC_QUANTIZE_ARGS_INIT);
#undef TERN_C_STRUCT

template <class T>
Status check_struct_size(const char* where, const char* parameter, const T* given) {
  if (given->struct_size < Grows<T>::first_bytes)
    return error(Code::invalid_argument, where, "{}->struct_size is {}, less than {}: begin with the INIT macro",
                 parameter, given->struct_size, Grows<T>::first_bytes);
  return {};
}

// Reads the caller's struct into this library's version; NULL gives the defaults. Fields this library does not know
// must be 0.
template <class T>
Result<T> read_struct(const char* where, const char* parameter, const T* given) {
  T value = Grows<T>::defaults();
  if (given == nullptr) return value;
  TERN_RETURN_IF_ERROR(check_struct_size(where, parameter, given));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);  // NOLINT: the tail has no type here
  for (std::size_t i = sizeof(T); i < given->struct_size; ++i)
    if (bytes[i] != 0)
      return error(Code::invalid_argument, where, "{} sets a field at byte {} that tern {} does not have", parameter, i,
                   TERN_VERSION);
  std::memcpy(&value, given, std::min(given->struct_size, sizeof(T)));
  return value;
}

// Reads one element of a caller's array of structs. The stride is the struct's size in the caller's version, which the
// first element states.
template <class T>
Result<T> read_element(const char* where, const char* array, const T* first, std::size_t index) {
  TERN_RETURN_IF_ERROR(check_struct_size(where, array, first));
  const std::size_t stride = first->struct_size;
  if (stride % alignof(T) != 0)
    return error(Code::invalid_argument, where,
                 "{}->struct_size is {}, not a multiple of {}: begin with the INIT macro", array, stride, alignof(T));
  const auto* bytes = reinterpret_cast<const unsigned char*>(first) + index * stride;  // NOLINT: T may be shorter here
  const T* element = reinterpret_cast<const T*>(bytes);                                // NOLINT
  if (element->struct_size != stride)
    return error(Code::invalid_argument, where, "{}[{}].struct_size is {}, but that of the first is {}", array, index,
                 element->struct_size, stride);
  return read_struct(where, array, element);
}

// Fills as much of the caller's struct as both sides know.
template <class T>
void write_struct(const T& value, T* out) {
  const std::size_t bytes = out->struct_size;
  std::memset(reinterpret_cast<unsigned char*>(out), 0, bytes);  // NOLINT: the tail has no type here
  std::memcpy(out, &value, std::min(bytes, sizeof(T)));
  out->struct_size = bytes;
}

// Writes text as snprintf does.
Status write_text(const char* where, const std::string& text, char* buffer, std::size_t buffer_bytes,
                  std::size_t* length);

// Conversions. `field` names the value in messages.
Result<Granularity> to_granularity(const char* where, const tern_granularity& granularity);
Result<DeviceId> to_device(const char* where, const char* field, tern_device_id id, const char* member = "");
Result<Shape> to_shape(const char* where, const char* field, std::int32_t rank, const std::int64_t* sizes);
Result<TensorView> to_view(const char* where, const char* field, const tern_tensor_view& view);
Result<Preference> to_preference(const char* where, const tern_preference* preference);
tern_granularity from_granularity(const Granularity& granularity);
tern_device_id from_device(DeviceId id);
tern_tensor_view from_view(const ConstTensorView& view);  // const is lost: the caller must know what not to write
tern_quality from_quality(const Quality& quality);
tern_tuning from_tuning(const Tuning& tuning);

// Pointers to strings, for C. The strings must outlive them.
std::vector<const char*> pointers_to(const std::vector<std::string>& strings);

// A Device as a C struct, with the storage that its pointers need.
struct DeviceFace {
  explicit DeviceFace(Device from);
  DeviceFace(const DeviceFace&) = delete;
  DeviceFace& operator=(const DeviceFace&) = delete;

  Device device;
  std::vector<tern_cache_info> caches;
  std::vector<const tern_cache_info*> cache_pointers;
  std::vector<tern_numa_info> nodes;
  std::vector<const tern_numa_info*> node_pointers;
  tern_gpu_info gpu{};
  tern_device_info info{};
};

// Memory for results that stay on the host: the context's memory, or the process's if the context is on a GPU.
std::shared_ptr<MemoryResource> host_memory_of(const tern_context& context);

Status make_quantized(QuantizedTensor tensor, tern_quantized** out);
Status make_packed_weights(PackedWeights weights, tern_packed_weights** out);

// The caller's wrapped streams. A stream wrapped twice is one stream of the context, released with its last handle.
struct WrappedStreams {
  explicit WrappedStreams(Context of) : context(std::move(of)) {}

  Context context;
  std::mutex mutex;
  std::map<void*, int> handles;  // how many, for each cudaStream_t
};

// Linear::Args together with the outputs that its span refers to. The Args are valid as long as this object lives.
struct LinearArgs {
  ConstTensorView x;
  ConstTensorView x_scales;
  std::array<Linear::Output, Linear::kMaxMatrices> outputs;
  std::size_t count = 0;
  // NOLINTNEXTLINE(google-explicit-constructor): used where other ops have plain Args
  operator Linear::Args() const { return {.x = x, .x_scales = x_scales, .outputs = std::span(outputs).first(count)}; }
};
Result<Linear::Problem> to_problem(const char* where, const tern_linear_problem* problem);
Result<AffineQuantize::Problem> to_problem(const char* where, const tern_affine_quantize_problem* problem);
Result<AffineQuantize::Args> to_args(const char* where, const tern_affine_quantize_args* args);
Result<AffineDequantize::Problem> to_problem(const char* where, const tern_affine_dequantize_problem* problem);
Result<AffineDequantize::Args> to_args(const char* where, const tern_affine_dequantize_args* args);
Result<FakeQuantize::Problem> to_problem(const char* where, const tern_fake_quantize_problem* problem);
Result<FakeQuantize::Args> to_args(const char* where, const tern_fake_quantize_args* args);
Result<FakeQuantizeBackward::Problem> to_problem(const char* where, const tern_fake_quantize_backward_problem* problem);
Result<FakeQuantizeBackward::Args> to_args(const char* where, const tern_fake_quantize_backward_args* args);
Result<ChooseQparams::Problem> to_problem(const char* where, const tern_choose_qparams_problem* problem);
Result<ChooseQparams::Args> to_args(const char* where, const tern_choose_qparams_args* args);
Result<DynamicQuantize::Problem> to_problem(const char* where, const tern_dynamic_quantize_problem* problem);
Result<DynamicQuantize::Args> to_args(const char* where, const tern_dynamic_quantize_args* args);
Result<LayoutSpec> to_spec(const char* where, const tern_layout_spec* spec);
tern_layout_spec from_spec(const LayoutSpec& spec);
tern_scale_loss from_loss(const ScaleLoss& loss);
// An array that may be NULL if its count is 0.
template <class T, class Pointer>
Result<std::span<T>> to_array(const char* where, const char* array, Pointer* data, const char* count_name,
                              std::size_t count) {
  if (data == nullptr && count != 0)
    return error(Code::invalid_argument, where, "{} is NULL but {} is {}", array, count_name, count);
  return std::span<T>(static_cast<T*>(data), count);
}
Result<LinearArgs> to_args(const char* where, const tern_linear_args* args);

}  // namespace tern::c

struct tern_stream {
  tern::Stream stream;
  std::shared_ptr<tern::c::WrappedStreams> wrapped = {};  // null: the context's own
};

struct tern_event {
  tern::Event event;
};

struct tern_context {
  tern::Context context;
  std::shared_ptr<tern::StatisticsResource> statistics;  // null: not counted
  std::shared_ptr<tern::GpuMemory> counted_gpu;          // the pool whose memory it counts; null on a CPU
  tern::c::DeviceFace device;
  std::vector<tern_stream> streams;  // never changes: callers have pointers into it
  std::shared_ptr<tern::c::WrappedStreams> wrapped;

  mutable std::mutex profile_mutex = {};
  mutable std::map<std::string, tern::KernelTime> profile = {};  // times that were not yet returned in full
};

struct tern_tensor {
  tern::Tensor tensor;
};

struct tern_quantized {
  tern::QuantizedTensor tensor;
  tern_quality quality;
  tern_quantized_info info;
};

struct tern_packed_weights {
  tern::PackedWeights weights;
  std::string tile;
  tern_packed_weights_info info;
};
