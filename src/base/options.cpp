// Reads and parses the TERN_ environment variables.
#include "base/options.h"

#include <cstdlib>
#include <string_view>

#include "base/errors.h"
#include "base/words.h"
#include "tern/context.h"

namespace tern {
namespace {

std::optional<std::string_view> variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): a concurrent setenv is the caller's race
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string_view(value);
}

bool is_gpu_level(Capability level) { return name(level).starts_with("sm_"); }

Status parse_max_isa(std::string_view text, Options& options) {
  constexpr std::string_view kWhere = "TERN_MAX_ISA";
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    const auto level = parse_capability(word);
    if (word != "scalar" && !level.ok()) {
      std::vector<std::string_view> levels = {"scalar"};
      for (int i = 0; i < kCapabilityCount; ++i) levels.push_back(name(static_cast<Capability>(i)));
      return error(Code::invalid_argument, kWhere, "'{}' is not one of {}", printable(word), listed(levels));
    }
    const bool is_gpu = level.ok() && is_gpu_level(*level);
    if (is_gpu ? options.max_gpu.has_value() : options.max_isa.has_value())
      return error(Code::invalid_argument, kWhere,
                   "'{}' has two levels of {}; give one, or one of CPUs and one of GPUs", printable(text),
                   is_gpu ? "GPUs" : "CPUs");
    if (is_gpu)
      options.max_gpu = *level;
    else
      options.max_isa = Options::MaxIsa{word == "scalar" ? std::nullopt : std::optional(*level)};
    if (comma == std::string_view::npos) return {};
    rest.remove_prefix(comma + 1);
  }
}

Result<int> parse_threads(std::string_view text) {
  const auto count = whole_number(text);
  if (!count || *count < 1 || *count > kMaxThreads)
    return error(Code::invalid_argument, "TERN_THREADS", "'{}' is not a whole number from 1 to {}", printable(text),
                 kMaxThreads);
  return static_cast<int>(*count);
}

Result<std::vector<std::string>> parse_kernel_list(std::string_view text) {
  std::vector<std::string> names;
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    const auto item = rest.substr(0, comma);
    if (item.empty())
      return error(Code::invalid_argument, "TERN_FORCE_KERNEL", "'{}' has an empty name; write name,name",
                   printable(text));
    names.emplace_back(item);
    if (comma == std::string_view::npos) return names;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace

std::string max_isa_text(const Options& options) {
  if (!options.max_gpu) return options.max_isa ? std::string(name(*options.max_isa)) : "";
  if (!options.max_isa) return std::string(name(*options.max_gpu));
  return fmt::format("{},{}", name(*options.max_isa), name(*options.max_gpu));
}

Result<Options> read_options() {
  Options options;
  if (const auto text = variable("TERN_MAX_ISA")) {
    TERN_RETURN_IF_ERROR(parse_max_isa(*text, options));
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
