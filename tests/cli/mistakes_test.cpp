// The same mistake has the same result in every command: exit code 2 for a wrong request, 1 for work that failed.
#include <map>
#include <sstream>

#include "command.h"
#include "npy_bytes.h"
#include "tests/support/bitnet_checkpoint.h"

namespace tern::cli_test {
namespace {

const std::vector<std::string> kEveryCommand = {"devices", "kernels", "explain", "quantize", "dequantize",
                                                "inspect", "convert", "verify",  "selftest", "bench"};

class MistakesTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    write_npy(path("good.npy"), "(8, 8)", random_weights(64, 11));
    std::filesystem::create_directory(path("model"));
    ASSERT_TRUE(write_bitnet_folder(path("model"), {.layers = 1}).ok());
    ASSERT_EQ(tern({"quantize", "good.npy", "-o", "good.npz"}).exit_code, 0);
    before_ = files();
  }

  // The options of a command that take a value, from its help: "--shape ROWSxCOLS", "-o,--output OUT".
  [[nodiscard]] std::vector<std::string> options_of(const std::string& command) const {
    std::vector<std::string> options;
    std::istringstream lines(tern({command, "--help"}).out);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string name, type;
      if (!line.starts_with("  -") || !(words >> name >> type)) continue;
      const bool takes_a_value = line.find(name + " " + type) != std::string::npos && std::isupper(type.front()) != 0 &&
                                 !type.starts_with("Excludes");
      if (takes_a_value) options.push_back(name.substr(name.find("--")));
    }
    return options;
  }
  // A valid command line; some would take too long to run.
  [[nodiscard]] static Arguments good(const std::string& command) {
    const std::map<std::string, Arguments> all = {{"devices", {}},
                                                  {"kernels", {}},
                                                  {"explain", {"ternary_quantize", "--shape", "3x4"}},
                                                  {"quantize", {"good.npy", "-o", "out.npz"}},
                                                  {"dequantize", {"good.npz", "-o", "out.npy"}},
                                                  {"inspect", {"model"}},
                                                  {"convert", {"model", "-o", "out.gguf"}},
                                                  {"verify", {"model", "model"}},
                                                  {"selftest", {"--threads", "1"}},
                                                  {"bench", {"ternary_quantize"}}};
    Arguments arguments = all.at(command);
    arguments.insert(arguments.begin(), command);
    return arguments;
  }
  void expect_asked_wrongly(const Arguments& arguments, const std::string& said,
                            const Variables& variables = {}) const {
    const Outcome outcome = tern(arguments, variables);
    EXPECT_EQ(outcome.exit_code, 2) << testing::PrintToString(arguments);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(outcome.err.starts_with("tern: invalid_argument: ")) << outcome.err;
    EXPECT_NE(outcome.err.find(said), std::string::npos) << said << " in " << outcome.err;
    EXPECT_EQ(files(), before_);
  }

 private:
  std::vector<std::string> before_;
};

// If a script's variable is empty, --max-error "$LIMIT" must not run without a limit.
TEST_F(MistakesTest, AnEmptyValueIsRefusedByEveryOptionOfEveryCommand) {
  std::size_t count = 0;
  for (const std::string& command : kEveryCommand)
    for (const std::string& option : options_of(command)) {
      ++count;
      SCOPED_TRACE(command + " " + option);
      Arguments empty_value = good(command);
      empty_value.insert(empty_value.end(), {option, ""});
      const Outcome empty = tern(empty_value);
      EXPECT_EQ(empty.exit_code, 2);
      EXPECT_TRUE(empty.err.starts_with("tern: invalid_argument: " + option + ": the value is empty") ||
                  empty.err.starts_with("tern: invalid_argument: " + option + ": '' is not a whole number"))
          << empty.err;
      expect_asked_wrongly({command, option + "=", "word"}, option + ": the value is empty");
    }
  EXPECT_GT(count, 60U);
  for (const char* command : {"quantize", "dequantize", "inspect", "convert", "verify", "explain"})
    expect_asked_wrongly({command, ""}, "the value is empty; give one");
}

TEST_F(MistakesTest, AWrongWordAnswers2InEveryCommand) {
  const std::vector<std::pair<std::string, std::string>> words = {{"--op", "divide"},
                                                                  {"--shape", "4"},
                                                                  {"--shape", "4x"},
                                                                  {"--dtype", "f17"},
                                                                  {"--scheme", "absmaen"},
                                                                  {"--granularity", "group"},
                                                                  {"--granularity", "group:0"},
                                                                  {"--format", "i3"},
                                                                  {"--scale", "0"},
                                                                  {"--scale", "x"},
                                                                  {"--non-finite", "ignore"},
                                                                  {"--max-error", "many"},
                                                                  {"--kernel", "abacus"},
                                                                  {"--threads", "0"},
                                                                  {"--threads", "many"},
                                                                  {"--device", "gpu"},
                                                                  {"--m", "0"},
                                                                  {"--math", "w9"},
                                                                  {"--method", "median"},
                                                                  {"--tuning", "threads=x"},
                                                                  {"--y", "f17"},
                                                                  {"--model", "gpt"},
                                                                  {"--repetitions", "0"},
                                                                  {"--from", "disk"},
                                                                  {"--variant", "mips"},
                                                                  {"--variant-b", "mips"},
                                                                  {"--weight-scale", "adds"},
                                                                  {"--gguf-type", "Q9"},
                                                                  {"--container", "zip"},
                                                                  {"--keep-embeddings", "u2"},
                                                                  {"--match", "gpt"}};
  std::map<std::string, int> tried;
  for (const std::string& command : kEveryCommand) {
    Arguments unknown = good(command);
    unknown.emplace_back("--colour");
    expect_asked_wrongly(unknown, "--colour");
    const std::vector<std::string> options = options_of(command);
    for (const auto& [option, word] : words) {
      if (std::find(options.begin(), options.end(), option) == options.end()) continue;
      ++tried[option];
      Arguments arguments = good(command);
      if (const auto given = std::find(arguments.begin(), arguments.end(), option); given != arguments.end())
        *(given + 1) = word;
      else
        arguments.insert(arguments.end(), {option, word});
      expect_asked_wrongly(arguments, option == "--kernel" ? word : option);
    }
  }
  for (const auto& [option, word] : words) EXPECT_GE(tried[option], 1) << option << " is no option of any command";
  for (const char* command : {"devices", "kernels", "explain", "quantize", "dequantize", "selftest", "bench"})
    for (const char* variable : {"TERN_MAX_ISA=x86_avx9", "TERN_DEVICE=gpu", "TERN_THREADS=0", "TERN_STRICT=yes"})
      expect_asked_wrongly(good(command), std::string(variable).substr(0, std::string(variable).find('=')), {variable});
}

TEST_F(MistakesTest, WorkThatFailsAnswers1) {
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"quantize", "none.npy", "-o", "out.npz"}, "io_error"},
      {{"quantize", "good.npy", "-o", "out.npz", "--max-error", "80"}, "quality_below_limit"},
      {{"quantize", "good.npy", "-o", "none/out.npz"}, "io_error"},
      {{"dequantize", "none.npz", "-o", "out.npy"}, "io_error"},
      {{"dequantize", "good.npy", "-o", "out.npy"}, "corrupt_file"},
      {{"inspect", "none.gguf"}, "io_error"},
      {{"convert", "none.gguf", "-o", "out.safetensors"}, "io_error"},
      {{"kernels", "--device", "cuda:999"}, "gpu_not_available"},
      {{"bench", "ternary_quantize", "--device", "cuda:999"}, "gpu_not_available"},
      {{"bench", "ternary_quantize", "--kernel", "ternary_quantize.s2.scalar"}, "unsupported"}};
  for (const auto& [arguments, code] : cases) {
    const Outcome outcome = tern(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << testing::PrintToString(arguments);
    EXPECT_TRUE(outcome.err.starts_with("tern: " + code)) << outcome.err;
  }
  // Exit code 1 of verify means that two models differ, so this must be 2.
  EXPECT_EQ(tern({"verify", "model", "none"}).exit_code, 2);
}

// The library's errors name fields; the command replaces them by its options.
TEST_F(MistakesTest, FieldsOfTheLibraryAreSaidAsOptions) {
  const auto said = [this](const Arguments& arguments) { return tern(arguments).err; };
  EXPECT_NE(said({"quantize", "model", "-o", "out.gguf", "--exclude", "nothing"}).find("(--exclude)"),
            std::string::npos);
  EXPECT_NE(said({"quantize", "model", "-o", "out.gguf", "--format", "tl1"}).find("--kernel-config"),
            std::string::npos);
  const std::string plan = tern({"quantize", "model", "-o", "out.gguf", "--drop", "norm", "--dry-run"}).out;
  EXPECT_NE(plan.find("drop: --drop"), std::string::npos) << plan;
  const nlohmann::json document =
      tern_json({"quantize", "model", "-o", "out.gguf", "--include", "q_proj", "--dry-run"});
  EXPECT_NE(document.dump().find("not in --include"), std::string::npos);
  EXPECT_EQ(document.dump().find("Options::"), std::string::npos);
}

}  // namespace
}  // namespace tern::cli_test
