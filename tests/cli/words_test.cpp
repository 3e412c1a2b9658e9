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

TEST_F(WordsTest, OptionsOfAWindow) {
  for (const char* command : {"explain", "bench"}) {
    for (const char* option : {"--image", "--stride", "--dilation", "--padding", "--groups", "--order", "--y-order"})
      expect_said({command, "linear", "--shape", "3x4", option, "1"}, 2,
                  std::string("linear has no ") + option + "; conv2d has (" + option + ")");
    const auto said = [&](const char* option, const char* value, const std::string& what) {
      expect_said({command, "conv2d", option, value}, 2, std::string("'") + value + "' is not " + what);
    };
    for (const char* shape :
         {"64x64", "64x64x3", "64x64x3x3x3", "0x64x3x3", "64x64x3x", "64 x64x3x3", "1073741825x1x1x1"})
      said("--shape", shape, "OUTxINxHEIGHTxWIDTH of the filters, as in 64x64x3x3, with whole numbers from 1 to 10737");
    for (const char* size : {"56", "56x0", "x56", "56x56x56"}) said("--image", size, "HEIGHTxWIDTH, as in 56x56, with");
    for (const char* option : {"--stride", "--dilation"})
      for (const char* step : {"0", "2x0", "2x", "2x1x1", "two", "-1"})
        said(option, step, "N or DOWNxACROSS, as in 2 or 2x1, with whole numbers from 1 to 1073741824 (");
    for (const char* padding : {"1,2", "1,2,3", "1,2,3,4,5", "1x1", "-1", ","})
      said("--padding", padding, "N or TOP,BOTTOM,LEFT,RIGHT, as in 1 or 0,1,0,1, with whole numbers from 0 to 107374");
    for (const char* option : {"--order", "--y-order"}) said(option, "chwn", "one of nchw, nhwc (");
    expect_said({command, "conv2d", "--groups", "0"}, 2, "--groups: '0' is not a whole number from 1 to 1073741824");
    expect_said({command, "conv2d", "--groups", "3"}, 2, "filters of [64, 64, 3, 3] in 3 groups: the groups do not");
    expect_said({command, "conv2d", "--image", "2x2", "--padding", "0"}, 2, "the filter reaches over 3 pixels of the");
  }
  expect_said({"explain", "linear"}, 2, "--shape is required");
}

TEST_F(WordsTest, AWindowHasWhatWasAskedFor) {
  const auto problem = [this](Arguments arguments) {
    arguments.insert(arguments.begin(), {"explain", "conv2d"});
    return tern_json(arguments)["problem"];
  };
  EXPECT_EQ(problem({}), json({{"images", 1},
                               {"image", {64, 56, 56}},
                               {"filters", {64, 64, 3, 3}},
                               {"groups", 1},
                               {"stride", {1, 1}},
                               {"dilation", {1, 1}},
                               {"padding", {1, 1, 1, 1}},
                               {"dtype", "f32"},
                               {"order", "nhwc"},
                               {"math", "w2a8"},
                               {"granularity", "tensor"},
                               {"format", "i2"},
                               {"y", "f32"},
                               {"y_order", "nhwc"}}));
  const json p = problem({"--shape",    "8x3x2x5", "--groups",      "4",       "--image", "20x30",   "--stride", "2x1",
                          "--dilation", "1x3",     "--padding",     "0,1,2,3", "--m",     "7",       "--order",  "nchw",
                          "--y-order",  "nchw",    "--granularity", "row",     "--math",  "w2_float"});
  EXPECT_EQ(p["images"], 7);
  EXPECT_EQ(p["image"], json({12, 20, 30}));
  EXPECT_EQ(p["filters"], json({8, 3, 2, 5}));
  EXPECT_EQ(p["groups"], 4);
  EXPECT_EQ(p["stride"], json({2, 1}));
  EXPECT_EQ(p["dilation"], json({1, 3}));
  EXPECT_EQ(p["padding"], json({0, 1, 2, 3}));
  EXPECT_EQ(p["order"], "nchw");
  EXPECT_EQ(p["y_order"], "nchw");
  EXPECT_EQ(p["granularity"], "row");
  EXPECT_EQ(p["math"], "w2_float");
  // Without --padding, an image keeps its size where the filter is odd and the stride 1.
  EXPECT_EQ(problem({"--shape", "8x8x7x4"})["padding"], json({3, 3, 1, 1}));
  EXPECT_EQ(problem({"--shape", "8x8x1x5", "--dilation", "3"})["padding"], json({0, 0, 6, 6}));
  EXPECT_EQ(problem({"--stride", "3"})["stride"], json({3, 3}));
  EXPECT_EQ(problem({"--padding", "2"})["padding"], json({2, 2, 2, 2}));

  const json record = tern_json({"bench", "conv2d", "--shape", "4x3x3x3", "--image", "5x6", "--m", "2", "--warm",
                                 "--repetitions", "1", "--threads", "1"})["records"][0];
  EXPECT_EQ(record["problem"]["image"], json({3, 5, 6}));
  EXPECT_EQ(record["problem"]["filters"], json({4, 3, 3, 3}));
  EXPECT_EQ(record["problem"]["images"], 2);
  EXPECT_EQ(record["problem"]["dtype"], "i8");
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
  EXPECT_EQ(first_line({"explain", "conv2d", "--dtype", "i8", "--m", "2"}),
            "conv2d of 2 images of 64 x 56 x 56 i8 with 64 filters of 64 x 3 x 3 in i2, scales by tensor, w2a8");
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
