// The options that several commands share, and the parsing of their values.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "commands.h"
#include "lab/environment.h"
#include "lab/op_record.h"
#include "tern/context.h"
#include "tern/observer.h"
#include "tern/precision.h"
#include "tern/qparams.h"
#include "tern/status.h"
#include "tern/types.h"

namespace tern::cli {

// --json and --verbose, which every command has.
struct OutputArguments {
  bool json = false;
  bool verbose = false;
};
void add_output_arguments(CLI::App& command, OutputArguments& arguments);

void add_threads_argument(CLI::App& command, std::optional<int>& threads);
void add_device_argument(CLI::App& command, std::string& device);
void add_tuning_argument(CLI::App& command, std::string& tuning);  // parse_tuning() reads it

// Makes every option of a command refuse an empty value: that is a variable that a script lost, not an option that was
// left out.
inline constexpr const char* kEmptyValue = "the value is empty; give one, or leave the option out";
void refuse_empty_values(CLI::App& command);

// A check for CLI::Option::check() that refuses what is not a whole number from `least` to `most`.
std::function<std::string(const std::string&)> whole_number(
    std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max());

// Refuses an unknown op with a list of the known ones, and an option whose word the op's problems do not have.
Status check_op(const std::string& op, std::string where = "op");
struct GivenWord {
  bool given = false;
  Word word;
  const char* option;
  std::string value = {};  // for the error; may be empty
};
Status check_words(const std::string& op, std::initializer_list<GivenWord> words);

// The words of a quantization, as typed.
struct SchemeArguments {
  std::string scheme = "absmean";
  std::string granularity = "tensor";
  std::string format;  // empty: the op chooses
  bool scheme_given = false;
  bool granularity_given = false;
};
struct SchemeWords {
  Scheme scheme;
  Granularity granularity;
  std::optional<Format> format;  // empty: the op chooses
};
void add_scheme_arguments(CLI::App& command, SchemeArguments& arguments);
// The op, --m and the words of explain and bench.
void add_op_arguments(CLI::App& command, std::string& op, std::optional<std::int64_t>& m, SchemeArguments& arguments);
Result<SchemeWords> parse(const SchemeArguments& arguments, const std::string& op = "ternary_quantize");

// Parses --dtype for an op, and refuses a type that none of its kernels takes.
Result<DType> parse_dtype_of(const std::string& op, const std::string& text);

// "4096x11008": rows, then columns.
struct RowsAndColumns {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};
Result<RowsAndColumns> parse_rows_and_columns(const std::string& text);
Result<RowsAndColumns> parse_problem_shape(const std::string& text);  // the same; refuses an empty shape

// Parses a float; an error names `option`.
Result<float> parse_float(const std::string& option, const std::string& text);

// --precision; `beside` names an option that also sets the type and was given, or is empty.
void add_precision_argument(CLI::App& command, std::optional<std::string>& precision);
Result<Precision> parse_precision_of(const std::string& op, const std::string& precision, const char* beside);

// --method, for the ops that choose scales; absmax by default.
void add_method_argument(CLI::App& command, std::optional<std::string>& method);
Result<QparamsMethod> parse_method(const std::optional<std::string>& method, const std::string& op);

// Opens the context in which a command runs. Without an observer, --verbose still logs.
Result<Context> open_context(const std::optional<int>& threads, const std::string& device,
                             std::shared_ptr<Observer> observer = nullptr);

// "Examples:" below a command's help, one command line each.
void add_examples(CLI::App& command, std::initializer_list<const char*> lines);

// Makes `run(options)` the command's callback, which returns an exit code or an error. `options` live as long as the
// command.
template <class Options>
void on_run(CLI::App& command, Session& session, std::shared_ptr<Options> options,
            Result<int> (*run)(const Options& options)) {
  command.callback([&session, options = std::move(options), run] {
    const Status overrides = lab::check_environment();
    const Result<int> exit_code = overrides.ok() ? run(*options) : Result<int>(overrides.error());
    if (exit_code.ok()) {
      session.exit_code = *exit_code;
    } else {
      fail(session, exit_code.error(), options->output.json);
    }
  });
}

}  // namespace tern::cli
