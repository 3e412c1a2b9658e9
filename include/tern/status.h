// What calls return: a Status or a Result<T>, each either success or an Error. Nothing here throws or prints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "tern/export.h"

namespace tern {

enum class Code : std::uint8_t {
  ok,
  invalid_argument,         // the caller's mistake: the message names the value and the remedy
  empty_input,              // a high-level call was given nothing to do
  unsupported,              // valid, but no kernel here can do it: explain() lists why
  non_finite,               // NaN or infinity with NonFinite::reject; Error::index is the first one
  invalid_quantized_value,  // a code outside its format or scheme; Error::index is its element
  invalid_scale,            // a scale that is not finite and positive; Error::index is its range
  quality_below_limit,      // the result misses the limits the caller set
  memory_allocation,        // an allocation failed
  insufficient_memory,      // known before the attempt; Error::details has the bytes, needed and free
  gpu_not_available,
  kernel_launch,
  io_error,      // the operating system refused
  corrupt_file,  // a file's bytes violate its format
  internal,      // a bug in the library
};

TERN_API std::string_view name(Code code);

// What some errors say in fields, too, for programs that decide by them: a smaller batch, another kernel, an element to
// mend. Not all errors of a code have them: the kernels of a GPU report an index alone.
struct MemoryShortage {  // of insufficient_memory
  std::uint64_t needed_bytes = 0;
  std::uint64_t free_bytes = 0;
};
struct CudaFailure {   // of kernel_launch, and of whatever else CUDA answered
  std::string kernel;  // that could not be launched; empty where a call of CUDA's runtime failed, which `where` names
  int code = 0;        // a cudaError_t
};
struct InvalidValue {  // of invalid_quantized_value, invalid_scale and zero points, beside Error::index
  double value = 0;    // bits that no code has count as one above the largest code, as 2 for a trit
  double lowest = 0;   // lowest to highest, both included, is what it may be
  double highest = 0;
};
using ErrorDetails = std::variant<std::monostate, MemoryShortage, CudaFailure, InvalidValue>;

struct Error {
  Code code = Code::internal;
  std::string message;      // one sentence with the offending value
  std::string where;        // the operation that failed, e.g. "ternary_quantize"
  std::int64_t index = -1;  // element, range or byte the message speaks of; -1 when there is none
  ErrorDetails details = {};

  // `error.as<MemoryShortage>()`, null where the error has other details or none.
  template <class Details>
  [[nodiscard]] const Details* as() const {
    return std::get_if<Details>(&details);
  }
  // "invalid_argument: k is -3 ... (ternary_quantize)"
  [[nodiscard]] TERN_API std::string str() const;
};

// Untrusted text as one printable line, as errors quote it: bytes that are not printable ASCII become \xNN, and the
// text is cut after `max_shown` characters.
TERN_API std::string escaped(std::string_view text, std::size_t max_shown = 200);

// Success, or an Error. One pointer wide, so that returning success costs nothing.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::make_unique<Error>(std::move(error))) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return error_ == nullptr; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] Code code() const { return error_ ? error_->code : Code::ok; }
  [[nodiscard]] const Error& error() const& { return *error_; }  // only when !ok()
  [[nodiscard]] Error error() && { return std::move(*error_); }

 private:
  std::unique_ptr<Error> error_;
};

// A T, or the Error in its place.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Error error) : status_(std::move(error)) {}    // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    if (status_.ok()) status_ = Error{Code::internal, "a Result was made from an ok Status", "Result"};
  }

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] Code code() const { return status_.code(); }
  [[nodiscard]] const Error& error() const& { return status_.error(); }  // only when !ok()
  [[nodiscard]] Error error() && { return std::move(status_).error(); }

  T& operator*() & { return *value_; }  // only when ok()
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace tern
