// Errors that speak of a file: what the operating system said, and whose bytes are wrong.
#pragma once

#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "tern/checkpoint.h"

namespace tern {

// "cannot open 'x.npy': No such file or directory", with the errno of the call that failed.
inline Error os_error(int number, std::string_view where, std::string_view action, std::string_view path) {
  return error(Code::io_error, where, "cannot {} '{}': {}", action, path, std::generic_category().message(number));
}

// An error of a parser that saw only bytes, told by the call that knows their name: "'x.npz': codes.npy: ...".
inline Error in_file(Error inner, std::string_view where, std::string_view path) {
  inner.message = fmt::format("'{}': {}", path, inner.message);
  inner.where = where;
  return inner;
}

}  // namespace tern
