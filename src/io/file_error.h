// Errors about files: what the operating system refused, and which file has wrong bytes.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "tern/checkpoint.h"
#include "tern/text.h"

namespace tern {

// An error that quotes file names. These may have any bytes, so they are escaped to keep the message on one line.
template <class... Args>
Error file_error(Code code, std::string_view where, fmt::format_string<Args...> format, Args&&... args) {
  return {code, one_line(fmt::format(format, std::forward<Args>(args)...)), std::string(where)};
}

// "cannot open 'x.npy': No such file or directory", with the errno of the call that failed.
inline Error os_error(int number, std::string_view where, std::string_view action, std::string_view path) {
  return file_error(Code::io_error, where, "cannot {} '{}': {}", action, path, std::generic_category().message(number));
}

// Names the kind of a file that is not regular.
inline std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// Adds the file's name to an error of a parser that saw only bytes: "'x.npz': codes.npy: ...".
inline Error in_file(Error inner, std::string_view where, std::string_view path) {
  inner.message = one_line(fmt::format("'{}': {}", path, inner.message));
  inner.where = where;
  return inner;
}

}  // namespace tern
