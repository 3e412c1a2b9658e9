// Typing errors: the message names the word, suggests the right one or lists what is accepted, and is one line.
#include "command.h"

namespace tern::cli_test {
namespace {

class WordsTest : public CommandTest {
 protected:
  // Expects "tern: invalid_argument: <said>..." as the first line of standard error, and `exit_code`.
  void expect_said(const Arguments& arguments, int exit_code, const std::string& said,
                   const Variables& variables = {}) const {
    const Outcome outcome = tern(arguments, variables);
    EXPECT_EQ(outcome.exit_code, exit_code) << testing::PrintToString(arguments);
    EXPECT_TRUE(outcome.err.starts_with("tern: invalid_argument: " + said)) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
};

TEST_F(WordsTest, OptionsAndCommandsThatAreNearlyRight) {
  expect_said({"quantize", "w.npy", "-o", "w.npz", "--thread", "3"}, 2,
              "unknown option --thread; did you mean --threads?");
  expect_said({"quantize", "w.npy", "-o", "w.npz", "--granularty=row"}, 2,
              "unknown option --granularty; did you mean --granularity?");
  expect_said({"quantize", "w.npy", "--outptu", "w.npz"}, 2, "unknown option --outptu; did you mean --output?");
  expect_said({"quantise", "w.npy", "--threads", "3"}, 2, "unknown command 'quantise'; did you mean quantize?");
  expect_said({"dequant", "w.npz"}, 2, "unknown command 'dequant'; did you mean dequantize?");
  expect_said({"--versoin"}, 2, "unknown option --versoin; did you mean --version?");
}

TEST_F(WordsTest, OptionsAndCommandsThatAreNothingLikeIt) {
  expect_said({"quantize", "w.npy", "-o", "w.npz", "--colour", "red"}, 2, "unknown option --colour (command line)");
  expect_said({"quantize", "w.npy", "-o", "w.npz", "--scale"}, 2, "--scale needs a value");
  expect_said({"frob", "a", "b"}, 2, "unknown command 'frob' (command line)");
  expect_said({"quantize", "a.npy", "b.npy", "c.npy", "-o", "w.npz"}, 2, "'b.npy' is one argument too many");
  expect_said({"--threads", "2", "selftest"}, 2, "--threads belongs behind the command, as in tern selftest --threads");
  EXPECT_TRUE(tern({"quantize", "--colour"}).err.ends_with("\n`tern quantize --help` says more.\n"));
}

TEST_F(WordsTest, AMalformedVariableIsAnErrorOfEveryCommandThatLooksAtTheMachine) {
  const std::string levels = "'foo' is not one of scalar, x86_sse41, x86_avx2, ";
  for (const Arguments& command : {Arguments{"devices"}, Arguments{"kernels"}, Arguments{"selftest"},
                                   Arguments{"explain", "linear", "--shape", "3x4"}, Arguments{"bench", "linear"}})
    expect_said(command, 2, levels, {"TERN_MAX_ISA=foo"});
  const Outcome limited = tern({"devices"}, {"TERN_MAX_ISA=scalar"});
  EXPECT_EQ(limited.exit_code, 0) << limited.err;
  EXPECT_NE(limited.out.find("TERN_MAX_ISA=scalar: kernels that need more do not run"), std::string::npos);
}

TEST_F(WordsTest, ListsHaveOnlyWhatTheOpTakes) {
  const auto format = [](const char* op) { return Arguments{"explain", op, "--shape", "3x4", "--format", "foo"}; };
  expect_said(format("ternary_quantize"), 2, "'foo' is not one of i2, s2, i8, b3 (--format)");
  expect_said(format("linear"), 2, "'foo' is not one of i2, b3, s8, s4 (--format)");
  expect_said(format("affine_quantize"), 2, "'foo' is not one of s8, u8, s4, u4, s2, u2 (--format)");
  expect_said({"explain", "linear", "--shape", "3x4", "--dtype", "foo"}, 2, "'foo' is not one of f32, f16, bf16, i8,");
  expect_said({"bench", "linear", "--threads", "1,0"}, 2, "'1,0' is not a list of whole numbers from 1 to 4096");
  for (const char* command : {"explain", "bench"})
    expect_said({command, "divide", "--shape", "3x4"}, 2, "'divide' is not one of ternary_quantize, ");
}

TEST_F(WordsTest, OptionsThatAnOpHasNot) {
  for (const char* command : {"explain", "bench"}) {
    expect_said({command, "linear", "--shape", "0x4"}, 2, "0x4 has no elements; give both sides 1 or more");
    for (const char* op : {"linear", "activation_quantize", "affine_quantize"})
      expect_said({command, op, "--shape", "3x4", "--scheme", "mse"}, 2,
                  std::string(op) + " has no --scheme; ternary_");
    expect_said({command, "activation_quantize", "--shape", "3x4", "--granularity", "row"}, 2,
                "activation_quantize has no --granularity: every token has its scale");
    expect_said({command, "activation_quantize", "--shape", "3x4", "--format", "i8"}, 2,
                "activation_quantize has no --format: its codes are i8");
  }
}

TEST_F(WordsTest, ExplainSaysWhatTheProblemIs) {
  const auto first_line = [this](const Arguments& arguments) {
    const std::string out = tern(arguments).out;
    return out.substr(0, out.find(", on cpu"));
  };
  EXPECT_EQ(first_line({"explain", "activation_quantize", "--shape", "3x4", "--m", "7"}),
            "activation_quantize of 7 x 4 f32, every token by its largest, i8");
  EXPECT_EQ(first_line({"explain", "linear", "--shape", "3x4", "--dtype", "i8"}),
            "linear of 1 token i8 with 3 x 4 weights in i2, scales by tensor, w2a8");
  EXPECT_EQ(first_line({"explain", "affine_quantize", "--shape", "3x4", "--granularity", "row"}),
            "affine_quantize of 3 x 4 f32, affine by row, s8");
  const nlohmann::json document = tern_json({"explain", "activation_quantize", "--shape", "3x4"});
  EXPECT_EQ(document["problem"]["scheme"], "token_i8");
  EXPECT_FALSE(tern_json({"explain", "linear", "--shape", "3x4"})["problem"].contains("scheme"));
}

TEST_F(WordsTest, BenchTimesColdOrWarmDataAndNotBoth) {
  const Arguments bench = {"bench", "ternary_quantize", "--shape", "8x64",     "--threads",
                           "1",     "--repetitions",    "1",       "--kernel", "ternary_quantize.i2.scalar"};
  for (const char* weights : {"cold", "warm"}) {
    Arguments arguments = bench;
    arguments.push_back(std::string("--") + weights);
    const nlohmann::json document = tern_json(arguments);
    ASSERT_EQ(document["records"].size(), 1u);
    EXPECT_EQ(document["records"][0]["weights"], weights);
  }
  expect_said({"bench", "ternary_quantize", "--cold", "--warm"}, 2, "--cold excludes --warm");
}

}  // namespace
}  // namespace tern::cli_test
