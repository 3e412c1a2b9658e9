// Names of error codes, the one-line text of an Error, and untrusted text in it.
#include "tern/status.h"

#include <array>

#include "base/fmt.h"

namespace tern {

std::string_view name(Code code) {
  static constexpr std::array<std::string_view, 15> kNames = {"ok",
                                                              "invalid_argument",
                                                              "empty_input",
                                                              "unsupported",
                                                              "non_finite",
                                                              "invalid_quantized_value",
                                                              "invalid_scale",
                                                              "quality_below_limit",
                                                              "memory_allocation",
                                                              "insufficient_memory",
                                                              "gpu_not_available",
                                                              "kernel_launch",
                                                              "io_error",
                                                              "corrupt_file",
                                                              "internal"};
  static_assert(kNames.size() == static_cast<std::size_t>(Code::internal) + 1);
  const auto i = static_cast<std::size_t>(code);
  return i < kNames.size() ? kNames[i] : "unknown";
}

std::string Error::str() const {
  std::string text(name(code));
  text += ": ";
  text += message;
  if (!where.empty()) text += " (" + where + ")";
  return text;
}

std::string escaped(std::string_view text, std::size_t max_shown) {
  std::string shown;
  for (const char c : text.substr(0, max_shown)) {
    if (c >= ' ' && c <= '~')
      shown += c;
    else
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return text.size() > max_shown ? shown + "..." : shown;
}

}  // namespace tern
