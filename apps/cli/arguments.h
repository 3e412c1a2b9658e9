// The options that several commands share, and what becomes of them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "commands.h"
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

// An empty value is a variable that a script lost, not an option that was left out: every option of a command refuses
// it.
inline constexpr const char* kEmptyValue = "the value is empty; give one, or leave the option out";
void refuse_empty_values(CLI::App& command);

// Refuses, in one sentence, what is not a whole number from `least` to `most`; for CLI::Option::check().
std::function<std::string(const std::string&)> whole_number(
    std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max());

// What the ops of `explain` and `bench` have: --method, --m, affine codes. An op that is none is an error that lists
// them.
Status check_op(const std::string& op, std::string where = "op");
bool has_method(const std::string& op);
bool has_tokens(const std::string& op);
bool is_affine(const std::string& op);

// The words of a quantization, as they were typed.
struct SchemeArguments {
  std::string scheme = "absmean";
  std::string granularity = "tensor";
  std::string format;  // empty: what the scheme packs to; s8 of affine ops
  bool scheme_given = false;
  bool granularity_given = false;
};
struct SchemeWords {
  Scheme scheme;
  Granularity granularity;
  Format format;
};
void add_scheme_arguments(CLI::App& command, SchemeArguments& arguments);
// The op, --m and the words of explain and bench.
void add_op_arguments(CLI::App& command, std::string& op, std::optional<std::int64_t>& m, SchemeArguments& arguments);
Result<SchemeWords> parse(const SchemeArguments& arguments, const std::string& op = "ternary_quantize");

// --dtype of an op. A type that the op does not take is for the kernels to refuse.
Result<DType> parse_dtype_of(const std::string& op, const std::string& text);

// "4096x11008": rows, then columns.
struct RowsAndColumns {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};
Result<RowsAndColumns> parse_rows_and_columns(const std::string& text);
Result<RowsAndColumns> parse_problem_shape(const std::string& text);  // the same, with something in it

// `text` as a float; `option` is named in the error.
Result<float> parse_float(const std::string& option, const std::string& text);

// The error of an option that was given with an op other than linear.
Error only_linear_has(const std::string& option, const std::string& op);

// --precision, of linear; `beside` is an option that says the type as well, or empty.
void add_precision_argument(CLI::App& command, std::optional<std::string>& precision);
Result<Precision> parse_precision_of(const std::string& op, const std::string& precision, const char* beside);

// --method, of the ops that choose scales; absmax unless it is given.
void add_method_argument(CLI::App& command, std::optional<std::string>& method);
Result<QparamsMethod> parse_method(const std::optional<std::string>& method, const std::string& op);

// The context a command runs in. Without an observer, --verbose still logs.
Result<Context> open_context(const std::optional<int>& threads, const std::string& device,
                             std::shared_ptr<Observer> observer = nullptr);

// "Examples:" below a command's help, one command line each.
void add_examples(CLI::App& command, std::initializer_list<const char*> lines);

// Makes `run(options)` the command's callback; it answers an exit code or an error. `options` live as long as the
// command.
template <class Options>
void on_run(CLI::App& command, Session& session, std::shared_ptr<Options> options,
            Result<int> (*run)(const Options& options)) {
  command.callback([&session, options = std::move(options), run] {
    const Result<int> exit_code = run(*options);
    if (exit_code.ok()) {
      session.exit_code = *exit_code;
    } else {
      fail(session, exit_code.error(), options->output.json);
    }
  });
}

}  // namespace tern::cli
