// The commands of `tern`: each has a file of this folder that adds it, with its options, its examples and its callback.
#pragma once

#include <CLI/CLI.hpp>

#include "tern/status.h"

namespace tern::cli {

// How a command answers: 0 it did what was asked; 1 it failed, or found what it looks for (a difference, a kernel that
// is wrong); 2 it was asked wrongly: the command line, a word in it or a variable is an invalid_argument. `verify`
// answers 1 only for models that differ, 2 for everything that went wrong.
constexpr int kFailed = 1, kAskedWrongly = 2;

// What the commands share. A callback that fails sets the exit code through fail().
struct Session {
  int exit_code = 0;
};

// Prints "tern: <error>" in the command's words to standard error (a JSON object with --json) and sets the exit code.
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
