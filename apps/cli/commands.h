// The commands of `tern`. Each has a file in this folder that adds it with its options, examples and callback.
#pragma once

#include <CLI/CLI.hpp>

#include "tern/status.h"

namespace tern::cli {

// Exit codes: 0 for success; 1 if the command failed or found what it looks for (a difference, a wrong kernel); 2 for
// wrong usage, an invalid_argument in the command line, in a word of it or in a variable. `verify` returns 1 only for
// models that differ, and 2 for everything that went wrong.
constexpr int kFailed = 1, kAskedWrongly = 2;

// What the commands share. A callback that fails sets the exit code through fail().
struct Session {
  int exit_code = 0;
};

// Prints "tern: <error>" to standard error (a JSON object with --json), with the names of options instead of fields,
// and sets the exit code.
void fail(Session& session, const Error& library_error, bool json);

void add_devices(CLI::App& app, Session& session);
void add_kernels(CLI::App& app, Session& session);
void add_explain(CLI::App& app, Session& session);
void add_quantize(CLI::App& app, Session& session);
void add_dequantize(CLI::App& app, Session& session);
void add_inspect(CLI::App& app, Session& session);
void add_convert(CLI::App& app, Session& session);
void add_verify(CLI::App& app, Session& session);
void add_selftest(CLI::App& app, Session& session);
void add_bench(CLI::App& app, Session& session);

}  // namespace tern::cli
