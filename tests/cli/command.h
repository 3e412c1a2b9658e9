// Runs the built tern command in a temporary folder and keeps its output.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tern::cli_test {

struct Outcome {
  int exit_code = -1;  // 128 + the signal if one ended it
  std::string out;
  std::string err;
};

// The path of the command to test; empty if this build has none.
std::string command_path();

using Arguments = std::vector<std::string>;
using Variables = std::vector<std::string>;  // "TERN_MAX_ISA=scalar"

// Starts `program` in `folder` with `variables` and the test's environment without TERN_*. Standard output goes to the
// file `out` or is discarded, errors go to `err` or to the test's own. Returns the process id, 0 if it did not start.
pid_t launch(const std::string& program, const Arguments& arguments, const std::filesystem::path& folder,
             const Variables& variables = {}, const std::filesystem::path& out = {},
             const std::filesystem::path& err = {});

// The same, but waits for the end and returns the output.
Outcome start(const std::string& program, const Arguments& arguments, const std::filesystem::path& folder,
              const Variables& variables = {});

// Makes a folder for each test and removes it afterwards. Skips the test if there is no command.
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
