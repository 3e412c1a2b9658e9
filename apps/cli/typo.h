// Error messages for a command line that does not parse: the mistake that was typed first, with the nearest known word.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tern::cli {

// The command that was named, or `app` itself.
const CLI::App& named_command(const CLI::App& app);

std::string message_of(const CLI::App& app, const CLI::ParseError& mistake);

}  // namespace tern::cli
