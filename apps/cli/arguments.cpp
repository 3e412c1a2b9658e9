// Declares the options that several commands share, and parses their values.
#include "arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "log.h"
#include "run_clock.h"

namespace tern::cli {
namespace {

Error bad_argument(std::string where, std::string message) {
  return {Code::invalid_argument, std::move(message), std::move(where)};
}

// Digits only: no space, no overflow, nothing below 0.
std::optional<std::int64_t> parse_size(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

Result<Format> parse_format_of(const std::string& op, const std::string& text) {
  std::vector<std::string_view> words;
  for (const Format format : lab::formats_of(op)) {
    if (name(format) == text) return format;
    words.push_back(name(format));
  }
  return bad_argument("--format", fmt::format("'{}' is not one of {}", escaped(text, 40), fmt::join(words, ", ")));
}

}  // namespace

void refuse_empty_values(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_items_expected_max() == 0) continue;  // a flag
    const bool wanted = option->get_required();
    option->check([wanted](const std::string& value) -> std::string {
      if (!value.empty()) return "";
      return wanted ? "the value is empty; give one" : kEmptyValue;
    });
  }
}

std::function<std::string(const std::string&)> whole_number(std::int64_t least, std::int64_t most) {
  return [least, most](const std::string& text) -> std::string {
    const auto number = parse_size(text);
    if (number && *number >= least && *number <= most) return "";
    const bool open = most == std::numeric_limits<std::int64_t>::max();
    return fmt::format("'{}' is not a whole number from {} {}", escaped(text, 40), least,
                       open ? "on" : fmt::format("to {}", most));
  };
}

Status check_op(const std::string& op, std::string where) {
  if (lab::find_op(op) != nullptr) return {};
  return bad_argument(std::move(where),
                      fmt::format("'{}' is not one of {}", escaped(op, 40), fmt::join(lab::op_names(), ", ")));
}

Status check_words(const std::string& op, std::initializer_list<GivenWord> words) {
  const lab::OpRecord& record = *lab::find_op(op);
  for (const GivenWord& word : words) {
    if (!word.given || record.words.has(word.word)) continue;
    const std::string_view why = record.without(word.word);
    if (!why.empty()) return bad_argument(word.option, fmt::format("{} has no {}: {}", op, word.option, why));
    const std::string given = word.value.empty() ? "" : fmt::format(" (it was given {})", word.value);
    return bad_argument(word.option,
                        fmt::format("{} has no {}{}; {}", op, word.option, given, lab::ops_with(word.word)));
  }
  return {};
}

void add_output_arguments(CLI::App& command, OutputArguments& arguments) {
  command.add_flag("--json", arguments.json, "Print one JSON document and nothing else");
  command.add_flag("--verbose", arguments.verbose, "Log what happens to standard error")->each([](const std::string&) {
    set_verbose(true);
  });
}

void add_threads_argument(CLI::App& command, std::optional<int>& threads) {
  command
      .add_option("--threads", threads, fmt::format("1 to {} threads; otherwise all this process may use", kMaxThreads))
      ->check(whole_number(1, kMaxThreads))
      ->type_name("N");
}

void add_device_argument(CLI::App& command, std::string& device) {
  command.add_option("--device", device, "cpu (default), cuda:0, ...; `tern devices` lists them")->type_name("NAME");
}

void add_tuning_argument(CLI::App& command, std::string& tuning) {
  command
      .add_option("--tuning", tuning,
                  "Of linear, on a CPU as in streams=2,ahead=2048; on a GPU as in\n"
                  "threads=256,grid=fixed,split=4,dependent=off; otherwise chosen")
      ->type_name("LIST");
}

void add_scheme_arguments(CLI::App& command, SchemeArguments& arguments) {
  const auto note = [](bool& given) { return [&given](const std::string&) { given = true; }; };
  command.add_option("--scheme", arguments.scheme, "absmean (default), absmax, mse or int2")
      ->each(note(arguments.scheme_given))
      ->type_name("NAME");
  command.add_option("--granularity", arguments.granularity, "What shares a scale: tensor (default), row, group:N")
      ->each(note(arguments.granularity_given))
      ->type_name("NAME");
  command.add_option("--format", arguments.format, "i2, b3 or i8; of int2 s2 or i8; otherwise the first")
      ->type_name("NAME");
}

void add_op_arguments(CLI::App& command, std::string& op, std::optional<std::int64_t>& m, SchemeArguments& arguments) {
  command.add_option("op", op, "The op, as `tern kernels` lists them")->required()->type_name("OP");
  command
      .add_option("--m", m,
                  "Tokens, or conv2d's images, 1 or more: of linear and conv2d\notherwise 1, of activation_quantize "
                  "the rows of --shape")
      ->check(whole_number(1))
      ->type_name("N");
  add_scheme_arguments(command, arguments);
  command.get_option("--scheme")->description("Of ternary_ ops: absmean (default), absmax, mse or int2");
  command.get_option("--format")
      ->description(
          "Of ternary_ ops i2, b3, i8, of int2 s2, i8; of linear and\n"
          "conv2d i2, b3, s8, s4; of affine ops s8, u8, s4, u4, s2, u2;\n"
          "else the first");
}

Result<SchemeWords> parse(const SchemeArguments& arguments, const std::string& op) {
  const Status known = check_words(op, {{arguments.scheme_given, Word::scheme, "--scheme"},
                                        {arguments.granularity_given, Word::granularity, "--granularity"},
                                        {!arguments.format.empty(), Word::format, "--format"}});
  if (!known.ok()) return known.error();
  const Result<Scheme> scheme = parse_scheme(arguments.scheme);
  if (!scheme.ok()) return scheme.error();
  const Result<Granularity> granularity = parse_granularity(arguments.granularity);
  if (!granularity.ok()) return granularity.error();
  if (arguments.format.empty()) return SchemeWords{*scheme, *granularity, {}};
  const Result<Format> format = parse_format_of(op, arguments.format);
  if (!format.ok()) return format.error();
  return SchemeWords{*scheme, *granularity, *format};
}

Result<DType> parse_dtype_of(const std::string& op, const std::string& text) {
  std::vector<std::string_view> known;
  for (const DType taken : lab::dtypes_of(op)) {
    if (name(taken) == text) return taken;
    known.push_back(name(taken));
  }
  return bad_argument(
      "--dtype", fmt::format("'{}' is not one of {}, which {} takes", escaped(text, 40), fmt::join(known, ", "), op));
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

Result<RowsAndColumns> parse_problem_shape(const std::string& text) {
  Result<RowsAndColumns> shape = parse_rows_and_columns(text);
  if (shape.ok() && (shape->rows == 0 || shape->columns == 0))
    return bad_argument("--shape", fmt::format("{} has no elements; give both sides 1 or more", text));
  return shape;
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

void add_precision_argument(CLI::App& command, std::optional<std::string>& precision) {
  command
      .add_option("--precision", precision,
                  "Of linear, instead of types: auto (what the device is\nfastest in), f32, f16, bf16")
      ->type_name("NAME");
}
Result<Precision> parse_precision_of(const std::string& op, const std::string& precision, const char* beside) {
  if (const Status known = check_words(op, {{true, Word::precision, "--precision"}}); !known.ok()) return known.error();
  if (*beside != '\0')
    return bad_argument("--precision", fmt::format("'{}' was given with {}; give only one, because each sets the type",
                                                   precision, beside));
  return parse_precision(precision);
}

void add_method_argument(CLI::App& command, std::optional<std::string>& method) {
  command
      .add_option("--method", method,
                  "Of chosen scales: absmax (default), minmax; of choose_qparams\nalso percentile, mse")
      ->type_name("NAME");
}
Result<QparamsMethod> parse_method(const std::optional<std::string>& method, const std::string& op) {
  const Status known = check_words(op, {{method.has_value(), Word::method, "--method"}});
  if (!known.ok()) return known.error();
  return parse_qparams_method(method.value_or("absmax"));
}

Result<Context> open_context(const std::optional<int>& threads, const std::string& device,
                             std::shared_ptr<Observer> observer) {
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
