// Reads and parses the TERN_ environment variables.
#include "base/options.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/errors.h"

namespace tern {
namespace {

std::optional<std::string_view> variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): setenv beside threads is the caller's race
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string_view(value);
}

Result<Options::MaxIsa> parse_max_isa(std::string_view text) {
  if (text == "scalar") return Options::MaxIsa{};
  auto level = parse_capability(text);
  if (!level.ok()) return error(Code::invalid_argument, "TERN_MAX_ISA", "scalar, or {}", level.error().message);
  return Options::MaxIsa{*level};
}

Result<int> parse_threads(std::string_view text) {
  int value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < 1 || value > kMaxThreads)
    return error(Code::invalid_argument, "TERN_THREADS", "'{}' is not a number of threads from 1 to {}",
                 printable(text), kMaxThreads);
  return value;
}

Result<std::vector<std::string>> parse_kernel_list(std::string_view text) {
  std::vector<std::string> names;
  while (true) {
    const auto comma = text.find(',');
    const auto item = text.substr(0, comma);
    if (item.empty())
      return error(Code::invalid_argument, "TERN_FORCE_KERNEL", "an empty name in the list; write name,name");
    names.emplace_back(item);
    if (comma == std::string_view::npos) return names;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<Options> read_options() {
  Options options;
  if (const auto text = variable("TERN_MAX_ISA")) {
    TERN_ASSIGN(max_isa, parse_max_isa(*text));
    options.max_isa = max_isa;
  }
  if (const auto text = variable("TERN_FORCE_KERNEL")) {
    TERN_ASSIGN(names, parse_kernel_list(*text));
    options.force_kernels = std::move(names);
  }
  if (const auto text = variable("TERN_DEVICE")) {
    auto device = parse_device(*text);
    if (!device.ok()) return error(Code::invalid_argument, "TERN_DEVICE", "{}", device.error().message);
    options.device = *device;
  }
  if (const auto text = variable("TERN_STRICT")) {
    if (*text != "0" && *text != "1")
      return error(Code::invalid_argument, "TERN_STRICT", "'{}' is not 0 or 1", printable(*text));
    options.strict = *text == "1";
  }
  if (const auto text = variable("TERN_THREADS")) {
    TERN_ASSIGN(threads, parse_threads(*text));
    options.threads = threads;
  }
  return options;
}

}  // namespace tern
