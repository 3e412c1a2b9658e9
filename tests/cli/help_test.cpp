// Every command has a help text, and every example in it works when copied.
#include <sstream>

#include "command.h"
#include "npy_bytes.h"
#include "tests/support/bitnet_checkpoint.h"

namespace tern::cli_test {
namespace {

// Ordered so that examples make the files that later examples read.
const std::vector<std::string> kCommands = {"devices", "kernels", "explain", "quantize", "dequantize",
                                            "inspect", "convert", "verify",  "selftest", "bench"};

// The lines below "Examples:", without the word tern, split at spaces.
std::vector<Arguments> examples_of(const std::string& help) {
  std::vector<Arguments> examples;
  std::istringstream lines(help);
  std::string line;
  while (std::getline(lines, line) && line != "Examples:") {
  }
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word)) continue;
    EXPECT_EQ(word, "tern") << line;
    Arguments& arguments = examples.emplace_back();
    while (words >> word) arguments.push_back(word);
  }
  return examples;
}

using HelpTest = CommandTest;

TEST_F(HelpTest, EveryCommandHasHelpWithExamplesThatFitsThePage) {
  for (const std::string& command : kCommands) {
    const Outcome outcome = tern({command, "--help"});
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_NE(outcome.out.find("Usage: tern " + command), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("--json"), std::string::npos) << command;
    EXPECT_NE(outcome.out.find("Exit status: 0 "), std::string::npos) << command;
    EXPECT_GE(examples_of(outcome.out).size(), 2u) << outcome.out;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << command << ": " << line;
  }
}

// Commands that take seconds are stopped by a bad override after their options were read; the error names it.
void expect_well_formed(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("TERN_THREADS"), std::string::npos) << outcome.err;
}

TEST_F(HelpTest, EveryExampleRuns) {
  write_npy(path("weights.npy"), "(8, 300)", random_weights(2400, 7));
  write_bytes(path("weights.bin"), std::string(2 * 64 * 128, '\x3C'));  // bf16
  std::filesystem::create_directory(path("model"));
  ASSERT_TRUE(write_bitnet_folder(path("model"), {.layers = 1}).ok());
  for (const std::string& command : kCommands) {
    const bool slow = command == "bench" || command == "selftest";
    for (const Arguments& example : examples_of(tern({command, "--help"}).out)) {
      SCOPED_TRACE(testing::PrintToString(example));
      ASSERT_EQ(example.front(), command);
      if (slow) {
        expect_well_formed(tern(example, {"TERN_THREADS=banana"}));
        continue;
      }
      const Outcome outcome = tern(example);
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
      EXPECT_NE(outcome.out, "");
    }
  }
  for (const Arguments& example : examples_of(tern({"--help"}).out)) EXPECT_EQ(tern(example).exit_code, 0);
}

TEST_F(HelpTest, TextFitsThePage) {
  const auto expect_columns = [this](const Arguments& arguments, std::size_t columns) {
    std::istringstream lines(tern(arguments).out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), columns) << line;
  };
  expect_columns({"devices"}, 80);
  expect_columns({"explain", "ternary_quantize", "--shape", "7x9"}, 80);
  expect_columns({"kernels"}, 100);
}

}  // namespace
}  // namespace tern::cli_test
