// Runs the built tern command in a temporary folder and keeps what it said.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tern::cli_test {

struct Outcome {
  int exit_code = -1;  // 128 + the signal when one ended it
  std::string out;
  std::string err;
};

// The command to test; empty when this build has none.
std::string command_path();

using Arguments = std::vector<std::string>;
using Variables = std::vector<std::string>;  // "TERN_MAX_ISA=scalar"

// Starts `program` in `folder` with the test's environment less TERN_*, plus `variables`; its output goes to the files
// `out` and `err`, where one is named, else nowhere and to the test's own. The process's id, 0 when it did not start.
pid_t launch(const std::string& program, const Arguments& arguments, const std::filesystem::path& folder,
             const Variables& variables = {}, const std::filesystem::path& out = {},
             const std::filesystem::path& err = {});

// The same, waits for the end and keeps what the program said.
Outcome start(const std::string& program, const Arguments& arguments, const std::filesystem::path& folder,
              const Variables& variables = {});

// A folder of its own for each test, removed afterwards; skipped where there is no command.
class CommandTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  [[nodiscard]] Outcome tern(const Arguments& arguments, const Variables& variables = {}) const;
  // Adds --json, expects `exit_code` and parses standard output.
  [[nodiscard]] nlohmann::json tern_json(Arguments arguments, int exit_code = 0, const Variables& variables = {}) const;
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::vector<std::string> files() const;  // names in the folder, sorted

 private:
  std::filesystem::path folder_;
};

}  // namespace tern::cli_test
