// The tern command: parses the command line, runs one command, returns 0, 1 (failure) or 2 (wrong usage).
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <sstream>
#include <string_view>

#include "arguments.h"
#include "commands.h"
#include "flags.h"
#include "json.h"
#include "log.h"
#include "tern/text.h"
#include "tern/version.h"
#include "typo.h"

namespace tern::cli {

void fail(Session& session, const Error& library_error, bool json) {
  const Error error = with_flags(library_error);
  session.exit_code = error.code == Code::invalid_argument ? kAskedWrongly : kFailed;
  say(json ? to_text(to_json(error)) + "\n" : fmt::format("tern: {}\n", one_line(error.str())));
}

namespace {

// Refuses --option= with nothing after it: CLI11 would take the next argument as the value.
void refuse_empty_inline_values(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") return;
    if (word.size() > 3 && word.starts_with("--") && word.find('=') == word.size() - 1)
      throw CLI::ValidationError(std::string(word.substr(0, word.size() - 1)), kEmptyValue);
  }
}

// Parsing may fail before any option was stored, so this searches the arguments for --json.
bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--json") return true;
  return false;
}

void add_commands(CLI::App& app, Session& session) {
  add_devices(app, session);
  add_kernels(app, session);
  add_explain(app, session);
  add_quantize(app, session);
  add_dequantize(app, session);
  add_inspect(app, session);
  add_convert(app, session);
  add_verify(app, session);
  add_selftest(app, session);
  add_bench(app, session);
  for (CLI::App* command : app.get_subcommands({})) {
    command->group("Commands");
    refuse_empty_values(*command);
    const bool compares = command->get_name() == "verify";
    command->footer((compares ? "Exit status: 0 they are equal, 1 they differ, 2 failure or wrong usage.\n\n"
                              : "Exit status: 0 success, 1 failure, 2 wrong usage.\n\n") +
                    command->get_footer());
  }
}

int run(int argc, char** argv) {
  Session session;
  bool failed = false;  // outside of any command
  CLI::App app("Ternary and low-bit kernels that return the same bits everywhere.", "tern");
  app.get_formatter()->column_width(34);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.set_version_flag("--version", std::string("tern ") + version(), "Print the version and exit");
  app.require_subcommand(0, 1);
  add_commands(app, session);
  add_examples(app, {"tern devices", "tern quantize weights.npy -o weights.npz", "tern quantize --help"});

  try {
    refuse_empty_inline_values(argc, argv);
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) fmt::print("{}", app.help());
  } catch (const CLI::Success& asked) {  // --help, --version
    std::ostringstream text;
    app.exit(asked, text, text);
    std::fputs(text.str().c_str(), stdout);  // a failure is detected below
  } catch (const CLI::ParseError& mistake) {
    const bool json = asks_for_json(argc, argv);
    fail(session, {Code::invalid_argument, message_of(app, mistake), "command line"}, json);
    const CLI::App& command = named_command(app);
    if (!json) say(fmt::format("`tern{} --help` says more.\n", &command == &app ? "" : " " + command.get_name()));
  } catch (const std::exception& failure) {
    if (std::ferror(stdout) == 0) {  // otherwise fmt threw because of the stream
      failed = true;
      fail(session, {Code::internal, failure.what(), "tern"}, asks_for_json(argc, argv));
    }
  }
  // A full disk shows only when the buffered text is written.
  const bool unwritten = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (unwritten && (session.exit_code == 0 || app.got_subcommand("verify"))) {
    failed = true;
    fail(session, {Code::io_error, "standard output could not be written", "tern"}, asks_for_json(argc, argv));
  }
  // For verify, 1 means that the two differ, so a failure is 2.
  return failed && app.got_subcommand("verify") ? 2 : session.exit_code;
}

// If a standard stream is closed, the next file that is opened gets its number, and the stream's text goes into that
// file. This opens /dev/null in its place, read-only: writing to the stream still fails, as it would have.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) == -1 && open("/dev/null", O_RDONLY) == -1) return;
}

}  // namespace
}  // namespace tern::cli

int main(int argc, char** argv) {
  // Without the signal a file-size limit fails the write, as a full disk does, and the temporary file is removed.
  std::signal(SIGXFSZ, SIG_IGN);
  tern::cli::occupy_closed_streams();
  return tern::cli::run(argc, argv);
}
