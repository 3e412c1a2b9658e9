// Runs the built tern command in a temporary folder, and the smallest tests of that.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "command.h"

namespace tern::cli_test {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (std::string& s : strings) list.push_back(s.data());
  list.push_back(nullptr);
  return list;
}

// The test's environment without the user's TERN_ overrides, which would change answers.
std::vector<std::string> environment_with(const Variables& variables) {
  std::vector<std::string> environment = variables;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::strncmp(*entry, "TERN_", 5) != 0) environment.emplace_back(*entry);
  return environment;
}

// A new folder with a unique name.
fs::path make_folder() {
  std::string pattern = (fs::temp_directory_path() / "tern-cli-XXXXXX").string();
  return ::mkdtemp(pattern.data()) == nullptr ? fs::path() : fs::path(pattern);
}

}  // namespace

std::string command_path() {
#ifdef TERN_CLI_PATH
  if (fs::exists(TERN_CLI_PATH)) return TERN_CLI_PATH;
#endif
  // A moved build keeps bin/ and tests/ side by side.
  std::error_code failure;
  const fs::path self = fs::read_symlink("/proc/self/exe", failure);
  const fs::path beside = self.parent_path().parent_path() / "bin" / "tern";
  return !failure && fs::exists(beside) ? beside.string() : std::string();
}

pid_t launch(const std::string& program, const Arguments& arguments, const fs::path& folder, const Variables& variables,
             const fs::path& out, const fs::path& err) {
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment = environment_with(variables);
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> envp = pointers(environment);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.empty() ? "/dev/null" : out.c_str(), O_WRONLY | O_CREAT,
                                   0600);
  if (!err.empty()) posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  pid_t child = 0;
  const int failure = posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  errno = failure;
  return failure == 0 ? child : 0;
}

Outcome start(const std::string& program, const Arguments& arguments, const fs::path& folder,
              const Variables& variables) {
  const fs::path capture = make_folder();  // not in `folder`, because tests count its files
  Outcome outcome;
  const pid_t child = launch(program, arguments, folder, variables, capture / "out", capture / "err");
  int status = 0;
  if (child == 0) {
    outcome.err = std::strerror(errno);
  } else if (::waitpid(child, &status, 0) == child) {
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.out = read_text(capture / "out");
    outcome.err = read_text(capture / "err");
  }
  fs::remove_all(capture);
  return outcome;
}

void CommandTest::SetUp() {
  if (command_path().empty()) GTEST_SKIP() << "skipped: this build has no tern command";
  folder_ = make_folder();
  ASSERT_FALSE(folder_.empty()) << "no temporary folder could be made";
}

void CommandTest::TearDown() {
  if (!folder_.empty()) fs::remove_all(folder_);
}

Outcome CommandTest::tern(const Arguments& arguments, const Variables& variables) const {
  return start(command_path(), arguments, folder_, variables);
}

nlohmann::json CommandTest::tern_json(Arguments arguments, int exit_code, const Variables& variables) const {
  arguments.emplace_back("--json");
  const Outcome outcome = tern(arguments, variables);
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  nlohmann::json document = nlohmann::json::parse(outcome.out, nullptr, false);
  EXPECT_FALSE(document.is_discarded()) << outcome.out;
  return document;
}

std::vector<std::string> CommandTest::files() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

TEST_F(CommandTest, PrintsItsVersion) {
  const Outcome outcome = tern({"--version"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out.substr(0, 5), "tern ");
  EXPECT_EQ(outcome.err, "");
}

TEST_F(CommandTest, AloneItPrintsHelp) {
  const Outcome alone = tern({});
  EXPECT_EQ(alone.exit_code, 0);
  EXPECT_EQ(alone.out, tern({"--help"}).out);
  EXPECT_NE(alone.out.find("quantize"), std::string::npos);
}

TEST_F(CommandTest, AFullStandardOutputIsAFailure) {
  const Outcome outcome = start("/bin/sh", {"-c", command_path() + " devices >/dev/full"}, folder());
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("standard output"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace tern::cli_test
