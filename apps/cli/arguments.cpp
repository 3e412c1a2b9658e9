// The options that several commands share, and what becomes of them.
#include "arguments.h"

#include <fmt/format.h>

#include <charconv>

#include "log.h"
#include "run_clock.h"

namespace tern::cli {
namespace {

Error bad_argument(std::string where, std::string message) {
  return {Code::invalid_argument, std::move(message), std::move(where)};
}

// Digits only: no sign, no space, no overflow.
std::optional<std::int64_t> parse_size(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || text.front() == '-') return std::nullopt;
  return value;
}

}  // namespace

void add_output_arguments(CLI::App& command, OutputArguments& arguments) {
  command.add_flag("--json", arguments.json, "Print one JSON document and nothing else");
  command.add_flag("--verbose", arguments.verbose, "Log what happens to standard error")->each([](const std::string&) {
    set_verbose(true);
  });
}

void add_threads_argument(CLI::App& command, std::optional<int>& threads) {
  command.add_option("--threads", threads, "Threads to use; otherwise all this process may use")->type_name("N");
}

void add_device_argument(CLI::App& command, std::string& device) {
  command.add_option("--device", device, "cpu (default), cuda:0, ...; `tern devices` lists them")->type_name("NAME");
}

void add_tuning_argument(CLI::App& command, std::string& tuning) {
  command.add_option("--tuning", tuning, "On a GPU: threads=256,grid=fixed,split=4,dependent=off")->type_name("LIST");
}

void add_scheme_arguments(CLI::App& command, SchemeArguments& arguments) {
  command.add_option("--scheme", arguments.scheme, "absmean (default), absmax, mse or int2")->type_name("NAME");
  command.add_option("--granularity", arguments.granularity, "Who shares a scale: tensor (default), row, group:N")
      ->type_name("NAME");
  command
      .add_option("--format", arguments.format, "i2, s2, i8, b3 or what the scheme packs to; affine: s8, u8, s4 ...")
      ->type_name("NAME");
}

Result<SchemeWords> parse(const SchemeArguments& arguments) {
  const Result<Scheme> scheme = parse_scheme(arguments.scheme);
  if (!scheme.ok()) return scheme.error();
  const Result<Granularity> granularity = parse_granularity(arguments.granularity);
  if (!granularity.ok()) return granularity.error();
  const Result<Format> format =
      arguments.format.empty() ? Result<Format>(default_format(*scheme)) : parse_format(arguments.format);
  if (!format.ok()) return format.error();
  return SchemeWords{*scheme, *granularity, *format};
}

Result<RowsAndColumns> parse_rows_and_columns(const std::string& text) {
  const std::size_t cross = text.find('x');
  if (cross != std::string::npos && cross > 0 && cross + 1 < text.size()) {
    const auto rows = parse_size(std::string_view(text).substr(0, cross));
    const auto columns = parse_size(std::string_view(text).substr(cross + 1));
    if (rows && columns) return RowsAndColumns{*rows, *columns};
  }
  return bad_argument("--shape", fmt::format("'{}' is not ROWSxCOLS, as in 4096x11008", text));
}

Result<float> parse_float(const std::string& option, const std::string& text) {
  float value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure == std::errc::result_out_of_range)
    return bad_argument(option, fmt::format("'{}' does not fit a 32-bit float", text));
  if (failure != std::errc() || end != text.data() + text.size())
    return bad_argument(option, fmt::format("'{}' is not a number", text));
  return value;
}

Error only_linear_has(const std::string& option, const std::string& op) {
  return bad_argument(option, fmt::format("{} has no {}; linear has", op, option));
}

bool has_method(const std::string& op) { return op == "choose_qparams" || op == "dynamic_quantize"; }
void add_method_argument(CLI::App& command, std::optional<std::string>& method) {
  command.add_option("--method", method, "Of chosen scales: absmax (default), minmax, percentile, mse")
      ->type_name("NAME");
}
Result<QparamsMethod> parse_method(const std::optional<std::string>& method, const std::string& op) {
  if (method && !has_method(op))
    return bad_argument("--method", fmt::format("{} has no --method; choose_qparams and dynamic_quantize have", op));
  return parse_qparams_method(method.value_or("absmax"));
}

Result<Context> open_context(const std::optional<int>& threads, const std::string& device,
                             std::shared_ptr<Observer> observer) {
  if (threads && *threads < 1)
    return bad_argument("--threads", fmt::format("{} threads cannot work; give 1 or more", *threads));
  if (!observer) observer = std::make_shared<RunClock>();
  ContextConfig config;
  config.threads = threads.value_or(0);
  config.observer = std::move(observer);
  if (device.empty()) return Context::open(std::move(config));
  const Result<DeviceId> named = parse_device(device);
  if (!named.ok()) return named.error();
  return Context::open(*named, std::move(config));
}

void add_examples(CLI::App& command, std::initializer_list<const char*> lines) {
  std::string footer = "Examples:";
  for (const char* line : lines) footer += fmt::format("\n  {}", line);
  command.footer(footer);
}

}  // namespace tern::cli
