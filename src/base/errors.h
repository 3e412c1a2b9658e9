// How the library makes an Error: one line with a formatted message and the operation it happened in.
#pragma once

#include "base/fmt.h"
#include "tern/status.h"

namespace tern {

template <class... Args>
Error error(Code code, std::string_view where, fmt::format_string<Args...> format, Args&&... args) {
  return {code, fmt::format(format, std::forward<Args>(args)...), std::string(where)};
}

// The same for an error about one element, range or byte.
template <class... Args>
Error error_at(std::int64_t index, Code code, std::string_view where, fmt::format_string<Args...> format,
               Args&&... args) {
  return {code, fmt::format(format, std::forward<Args>(args)...), std::string(where), index};
}

// Adds machine-readable details to an error: with(MemoryShortage{...}, error(...)).
inline Error with(ErrorDetails details, Error error) {
  error.details = std::move(details);
  return error;
}

// At most 40 characters of untrusted text, as errors quote it.
inline std::string printable(std::string_view text) { return escaped(text, 40); }

}  // namespace tern

// Returns the error of a Status or Result to the caller.
#define TERN_RETURN_IF_ERROR(expression)                                                              \
  do {                                                                                                \
    if (auto tern_outcome = (expression); !tern_outcome.ok()) return std::move(tern_outcome).error(); \
  } while (false)

// Declares `variable` as the value of a Result, or returns its error.
#define TERN_ASSIGN(variable, expression)                                   \
  auto variable##_result = (expression);                                    \
  if (!variable##_result.ok()) return std::move(variable##_result).error(); \
  auto variable = *std::move(variable##_result)
