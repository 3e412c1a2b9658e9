// What the files of the C ABI share: the guard around every entry point, structs that grow, and conversions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
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

// What the caller gets of an element of a list.
inline const char* face(const std::string& text) { return text.c_str(); }
template <class T>
const T* face(const T& element) {
  return &element;
}
template <class T>
auto face(const std::unique_ptr<T>& element) {
  return &element->info;
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
// The rows of all structs are in api/generated/c_structs.h.

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

// Sets a member to what was read for it.
template <class Member, class T>
Status set(Member* member, Result<T>&& value) {
  if (!value.ok()) return std::move(value).error();
  *member = *std::move(value);
  return {};
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
inline Status write_text(const char* where, const Result<std::string>& text, char* buffer, std::size_t buffer_bytes,
                         std::size_t* length) {
  return text.ok() ? write_text(where, *text, buffer, buffer_bytes, length) : Status(text.error());
}

// Conversions of small values. `field` names the value in messages.
Result<Granularity> to_granularity(const char* where, const tern_granularity& granularity);
Result<AffineGranularity> to_affine_granularity(const char* where, const char* field,
                                                const tern_affine_granularity& granularity);
Result<DeviceId> to_device(const char* where, const char* field, tern_device_id id, const char* member = "");
Result<Shape> to_shape(const char* where, const char* field, std::int32_t rank, const std::int64_t* sizes);
Result<TensorView> to_view(const char* where, const char* field, const tern_tensor_view& view);
Result<Preference> to_preference(const char* where, const tern_preference* preference);
Result<std::span<const float>> to_scales(const char* where, const float* scale, std::size_t scale_count);
Result<std::vector<StoredType>> to_gguf_types(const char* where, const char* const* names, std::size_t count);
Result<std::span<const std::int64_t>> to_sizes(const char* where, const char* field, std::int32_t rank,
                                               const std::int64_t* shape);  // of any rank
Result<std::vector<KernelTiles>> to_tiles(const char* kernel_config);       // NULL: none
inline Lossy to_lossy(std::int32_t lossy) { return lossy != 0 ? Lossy::allow : Lossy::refuse; }
inline std::string text_or_empty(const char* text) { return text == nullptr ? std::string() : std::string(text); }
inline std::optional<double> limit(double value) {
  return std::isnan(value) ? std::nullopt : std::optional<double>(value);
}
tern_granularity face_of(const Granularity& granularity);
tern_affine_granularity face_of(const AffineGranularity& granularity);
tern_device_id face_of(DeviceId id);
tern_tensor_view face_of(const ConstTensorView& view);  // const is lost: the caller must know what not to write
std::uint64_t mask_of(Capabilities capabilities);
inline std::int64_t place_or_none(std::optional<std::size_t> place) {
  return place ? static_cast<std::int64_t>(*place) : -1;
}

// A bound of the codes, if it was given. If q_given is 0, two bounds of 0 mean "not given".
template <class Given>
std::optional<int> given_bound(const Given& given, std::int32_t bound) {
  if (given.q_given == 0 && given.q_min == 0 && given.q_max == 0) return std::nullopt;
  return bound;
}

// An array that may be NULL if its count is 0.
template <class T, class Pointer>
Result<std::span<T>> to_array(const char* where, const char* array, Pointer* data, const char* count_name,
                              std::size_t count) {
  if (data == nullptr && count != 0)
    return error(Code::invalid_argument, where, "{} is NULL but {} is {}", array, count_name, count);
  return std::span<T>(static_cast<T*>(data), count);
}

// What C has pointers into.
struct Pinned {
  Pinned() = default;
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
};

// A Device as a C struct, with the storage that its pointers need.
struct DeviceFace : Pinned {
  explicit DeviceFace(Device from);

  Device device;
  std::vector<tern_cache_info> caches;
  std::vector<const tern_cache_info*> cache_pointers;
  std::vector<tern_numa_info> nodes;
  std::vector<const tern_numa_info*> node_pointers;
  tern_gpu_info gpu{};
  tern_device_info info{};
};

tern_stored_type_info face_of(StoredType type);

struct KernelFace;
struct PlanFace;

}  // namespace tern::c

#include "api/generated/c_structs.h"
#undef TERN_C_STRUCT
