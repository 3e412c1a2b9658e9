// Kills tern quantize at random moments: the output is missing or complete, and the next run clears up.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "command.h"
#include "tern/model.h"
#include "tests/support/bitnet_checkpoint.h"

namespace tern::cli_test {
namespace {

// How often to kill; scripts/test-deep asks for 200 times.
int kills() {
  const char* text = std::getenv("TERN_TEST_KILLS");
  return text == nullptr ? 20 : std::atoi(text);
}

class KillTest : public CommandTest {
 protected:
  // Starts tern quantize and kills it after a while; returns whether it was still running.
  bool quantize_and_kill(std::chrono::microseconds after) const {
    const pid_t child = launch(command_path(), {"quantize", "model", "-o", "out.gguf", "--threads", "2"}, folder());
    EXPECT_GT(child, 0);
    if (child == 0) return false;
    std::this_thread::sleep_for(after);
    ::kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFSIGNALED(status);
  }
};

TEST_F(KillTest, TheOutputIsWholeOrNotThere) {
  std::filesystem::create_directory(path("model"));
  ASSERT_TRUE(
      write_bitnet_folder(path("model"), {.layers = 3, .hidden = 512, .kv = 128, .ffn = 1536, .vocab = 4096}).ok());
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(tern({"quantize", "model", "-o", "whole.gguf", "--threads", "2"}).exit_code, 0);
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
  const auto context = Context::open();
  ASSERT_TRUE(context.ok());
  const auto expected = Model::open(path("whole.gguf"));
  ASSERT_TRUE(expected.ok());
  std::mt19937 random(std::random_device{}());
  int killed = 0, appeared = 0, temporaries = 0;
  for (int i = 0; i < kills(); ++i) {
    std::filesystem::remove(path("out.gguf"));
    const auto after =
        std::chrono::microseconds(random() % static_cast<unsigned long>(whole.count() + whole.count() / 8));
    killed += quantize_and_kill(after) ? 1 : 0;
    const std::vector<std::string> left = files();
    // Temporary files of earlier runs are removed, so at most one is left.
    const auto extra = left.size() - 2 - (std::filesystem::exists(path("out.gguf")) ? 1 : 0);
    EXPECT_LE(extra, 1u) << testing::PrintToString(left);
    temporaries += static_cast<int>(extra);
    if (!std::filesystem::exists(path("out.gguf"))) continue;
    ++appeared;
    const auto made = Model::open(path("out.gguf"));
    ASSERT_TRUE(made.ok()) << made.error().str();
    const auto difference = compare_models(*context, *expected, *made);
    ASSERT_TRUE(difference.ok()) << difference.error().str();
    EXPECT_TRUE(difference->equal());
  }
  EXPECT_GT(killed, 0) << "every run was over before it was killed";
  RecordProperty("killed", killed);
  RecordProperty("appeared", appeared);
  RecordProperty("temporaries", temporaries);
  ASSERT_EQ(tern({"quantize", "model", "-o", "out.gguf"}).exit_code, 0);
  EXPECT_EQ(files(), (std::vector<std::string>{"model", "out.gguf", "whole.gguf"})) << "a rerun clears up";
}

TEST_F(KillTest, TemporariesOfTheLivingAreLeftAlone) {
  std::filesystem::create_directory(path("model"));
  ASSERT_TRUE(write_bitnet_folder(path("model"), {.layers = 1}).ok());
  const std::string living = path(".out.gguf." + std::to_string(::getpid()) + ".0.tmp");
  const std::string others = path(".other.gguf.1.0.tmp"), odd = path(".out.gguf.x.0.tmp");
  const std::string dead = path(".out.gguf.999999999.7.tmp");
  for (const std::string& file : {living, others, odd, dead}) std::ofstream(file) << "bytes";
  ASSERT_EQ(tern({"quantize", "model", "-o", "out.gguf"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(living));
  EXPECT_TRUE(std::filesystem::exists(others));
  EXPECT_TRUE(std::filesystem::exists(odd));
  EXPECT_FALSE(std::filesystem::exists(dead));
}

}  // namespace
}  // namespace tern::cli_test
