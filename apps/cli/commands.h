// The commands of `tern`: each has a file of this folder that adds it, with its options, its examples and its callback.
#pragma once

#include <CLI/CLI.hpp>

#include "tern/status.h"

namespace tern::cli {

// What the commands share. A callback that fails sets the exit code through fail().
struct Session {
  int exit_code = 0;
};

// Prints "tern: <error>" to standard error (a JSON object with --json) and sets exit code 1.
void fail(Session& session, const Error& error, bool json);

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
