// What a call answers: a Status or a Result<T>, either of which is a value or an Error. Nothing here throws or prints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tern/export.h"

namespace tern {

enum class Code : std::uint8_t {
  ok,
  invalid_argument,         // the caller's mistake: the message names the value and the remedy
  empty_input,              // a high-level call was given nothing to do
  unsupported,              // correct, but no kernel here can do it: explain() lists why
  non_finite,               // NaN or infinity under NonFinite::reject; Error::index is the first one
  invalid_quantized_value,  // a code outside its format or scheme; Error::index is its element
  invalid_scale,            // a scale that is not finite and positive; Error::index is its range
  quality_below_limit,      // the result misses the limits the caller set
  memory_allocation,        // an allocation failed
  insufficient_memory,      // known before the attempt: needed and available are in the message
  gpu_not_available,
  kernel_launch,
  io_error,      // the operating system refused
  corrupt_file,  // the bytes of a file are not what they must be
  internal,      // a bug of ours
};

TERN_API std::string_view name(Code code);

struct Error {
  Code code = Code::internal;
  std::string message;      // one sentence with the offending value
  std::string where;        // the operation that failed, e.g. "ternary_quantize"
  std::int64_t index = -1;  // element, range or byte the message speaks of; -1 when there is none

  // "invalid_argument: k is -3 ... (ternary_quantize)"
  [[nodiscard]] TERN_API std::string str() const;
};

// Untrusted text as one printable line, as errors quote it: what is not printable ASCII as \xNN, cut after `max_shown`
// characters.
TERN_API std::string escaped(std::string_view text, std::size_t max_shown = 200);

// Ok, or an Error. A pointer wide, so that returning success costs nothing.
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

// A T, or the Error that stands in its place.
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
