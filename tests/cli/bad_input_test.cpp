// Every kind of bad input: an error that names the value, an exit code, and no file left behind.
#include <limits>

#include "command.h"
#include "npy_bytes.h"

namespace tern::cli_test {
namespace {

using nlohmann::json;

// Makes good and bad files of every kind for the cases below.
class BadInputTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const std::vector<float> weights = random_weights(64, 11);
    const std::string data(64 * sizeof(float), '\x01');
    write_npy(path("good.npy"), "(8, 8)", weights);
    write_npy(path("nan.npy"), "(2, 2)", {1, 2, 3, std::numeric_limits<float>::quiet_NaN()});
    write_npy(path("infinity.npy"), "(2, 2)", {1, -std::numeric_limits<float>::infinity(), 3, 4});
    write_npy(path("empty.npy"), "(0, 4)", {});
    write_bytes(path("no_bytes.npy"), "");
    write_bytes(path("text.npy"), "these are not the weights you are looking for");
    write_bytes(path("truncated.npy"), (npy_header("<f4", false, "(8, 8)") + data).substr(0, 200));
    write_bytes(path("half_header.npy"), npy_header("<f4", false, "(8, 8)").substr(0, 30));
    write_bytes(path("object.npy"), npy_header("|O", false, "(8, 8)") + data);
    write_bytes(path("integers.npy"), npy_header("<i4", false, "(8, 8)") + data);
    write_bytes(path("fortran.npy"), npy_header("<f4", true, "(8, 8)") + data);
    write_bytes(path("overflow.npy"), npy_header("<f4", false, "(9223372036854775807, 8)") + data);
    write_bytes(path("negative.npy"), npy_header("<f4", false, "(-8, 8)") + data);
    // Version 2.0 whose header says it is 4 GiB long.
    write_bytes(path("huge_header.npy"), std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12) + data);
    std::filesystem::create_directory(path("folder"));
    std::filesystem::create_symlink("good.npy", path("link.npy"));
    ASSERT_EQ(tern({"quantize", "good.npy", "-o", "good.npz"}).exit_code, 0);
    std::filesystem::copy_file(path("good.npz"), path("truncated.npz"));
    std::filesystem::resize_file(path("truncated.npz"), std::filesystem::file_size(path("good.npz")) / 2);
    before_ = files();
  }

  // Expects an error with `code` and its exit code (2 for a wrong request) that names `value`, no other output and no
  // file left behind.
  void expect_refused(Arguments arguments, const std::string& code, const std::string& value,
                      const Variables& variables = {}) const {
    SCOPED_TRACE(testing::PrintToString(arguments));
    const int exit_code = code == "invalid_argument" ? 2 : 1;
    const Outcome text = tern(arguments, variables);
    EXPECT_EQ(text.exit_code, exit_code);
    EXPECT_EQ(text.out, "");
    EXPECT_EQ(text.err.substr(0, 6 + code.size()), "tern: " + code);
    EXPECT_NE(text.err.find(value), std::string::npos) << value << " in " << text.err;

    arguments.emplace_back("--json");
    const Outcome outcome = tern(arguments, variables);
    EXPECT_EQ(outcome.exit_code, exit_code);
    EXPECT_EQ(outcome.out, "");
    const json document = json::parse(outcome.err, nullptr, false);
    ASSERT_TRUE(document.is_object() && document.contains("error")) << outcome.err;
    EXPECT_EQ(document["error"]["code"], code);
    const std::string said =
        document["error"]["message"].get<std::string>() + document["error"]["where"].get<std::string>();
    EXPECT_NE(said.find(value), std::string::npos) << value << " in " << said;
    EXPECT_TRUE(document["error"].contains("index"));
    EXPECT_EQ(files(), before_);
  }

  void expect_quantize_refused(const std::string& input, const std::string& code, const std::string& value,
                               const Arguments& more = {}) const {
    Arguments arguments = {"quantize", input, "-o", "out.npz"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_refused(arguments, code, value);
  }

 private:
  std::vector<std::string> before_;
};

TEST_F(BadInputTest, FilesThatCannotBeRead) {
  expect_quantize_refused("nope.npy", "io_error", "nope.npy");
  expect_refused({"quantize", "folder", "-o", "out.gguf"}, "invalid_argument", "folder");  // has no checkpoint
  expect_refused({"dequantize", "nope.npz", "-o", "out.npy"}, "io_error", "nope.npz");
  expect_refused({"quantize", "nope", "-o", "out.gguf", "--dry-run"}, "io_error", "'nope' does not exist");
  expect_refused({"inspect", "good.npz"}, "invalid_argument", "`tern dequantize` read");
  expect_refused({"inspect", "good.npy"}, "invalid_argument", "`tern quantize` read");
}

TEST_F(BadInputTest, FilesThatAreBroken) {
  for (const char* file : {"no_bytes.npy", "text.npy", "truncated.npy", "half_header.npy", "huge_header.npy",
                           "overflow.npy", "negative.npy"})
    expect_quantize_refused(file, "corrupt_file", file);
  for (const char* file : {"truncated.npz", "good.npy", "no_bytes.npy"})
    expect_refused({"dequantize", file, "-o", "out.npy"}, "corrupt_file", file);
}

TEST_F(BadInputTest, FilesOfAnotherKind) {
  expect_quantize_refused("object.npy", "unsupported", "|O");
  expect_quantize_refused("fortran.npy", "unsupported", "fortran");
  expect_quantize_refused("integers.npy", "unsupported", "'integers.npy' is i32; f32, f16");
  expect_quantize_refused("empty.npy", "empty_input", "[0, 4]");
}

TEST_F(BadInputTest, RawInputThatDoesNotFit) {
  const auto raw = [this](const char* file, const char* code, const std::string& value, const char* dtype,
                          const char* shape) {
    expect_quantize_refused(file, code, value, {"--dtype", dtype, "--shape", shape});
  };
  raw("text.npy", "invalid_argument", "has 45 bytes, but [4, 8] of bf16 needs 64", "bf16", "4x8");
  raw("text.npy", "invalid_argument", "'4' is not ROWSxCOLS", "bf16", "4");
  raw("text.npy", "invalid_argument", "f17", "f17", "4x8");
  raw("text.npy", "unsupported", "i8", "i8", "5x9");
  raw("no_bytes.npy", "empty_input", "[0, 8]", "bf16", "0x8");
  raw("good.npy", "invalid_argument", "'good.npy' is a .npy file", "f32", "8x8");
  raw("nope.bin", "io_error", "nope.bin", "bf16", "4x8");
  expect_quantize_refused("text.npy", "invalid_argument", "'bf16' was given without --shape", {"--dtype", "bf16"});
  expect_quantize_refused("text.npy", "invalid_argument", "'4x8' was given without --dtype", {"--shape", "4x8"});
  expect_refused({"dequantize", "good.npz", "-o", "y.npy", "--dtype", "bf16"}, "invalid_argument", "y.npy");
  expect_refused({"dequantize", "good.npz", "-o", "y.npy", "--dtype", "f8"}, "invalid_argument", "f8");
  expect_refused({"dequantize", "good.npz", "-o", "y.npy", "--dtype", "i32"}, "invalid_argument",
                 "'i32' holds no fractions; take f32");
}

TEST_F(BadInputTest, AnF64ScaleBeyondF32) {
  write_bytes(path("good.npy"), npy_header("<f8", false, "(1, 1)") + std::string("\0\0\0\0\0\0\x6F\x7F", 8));
  expect_quantize_refused("good.npy", "invalid_scale", "the scale of row 0 is", {"--granularity", "row"});
}

TEST_F(BadInputTest, NonFiniteValuesAreNamedByIndex) {
  expect_quantize_refused("nan.npy", "non_finite", "3");
  expect_quantize_refused("infinity.npy", "non_finite", "1");
  expect_quantize_refused("nan.npy", "non_finite", "--non-finite");
  const Outcome outcome = tern({"quantize", "nan.npy", "-o", "out.npz", "--json"});
  EXPECT_EQ(json::parse(outcome.err)["error"]["index"], 3);
}

// Scripts decide by the fields of an error, not by its sentence.
TEST_F(BadInputTest, ErrorsSayTheSameInFieldsWhereTheyHaveThem) {
  const auto error_of = [this](Arguments arguments) {
    arguments.emplace_back("--json");
    return json::parse(tern(arguments).err, nullptr, false)["error"];
  };
  const std::string corpus = TERN_TESTS_DIR "/corpus/npz/";
  const json code = error_of({"dequantize", corpus + "code_three.npz", "-o", "y.npy"});
  EXPECT_EQ(code["code"], "invalid_quantized_value") << code;
  EXPECT_EQ(code["details"], json::parse(R"({"value": 2.0, "lowest": -1.0, "highest": 1.0})"));
  const json scale = error_of({"dequantize", corpus + "zero_scale.npz", "-o", "y.npy"});
  EXPECT_EQ(scale["code"], "invalid_scale") << scale;
  EXPECT_EQ(scale["details"]["value"], 0.0);
  EXPECT_GT(scale["details"]["lowest"], 0.0);
  const json memory = error_of({"bench", "ternary_quantize", "--shape", "1048576x1048576"});
  EXPECT_EQ(memory["code"], "insufficient_memory") << memory;
  EXPECT_GT(memory["details"]["needed_bytes"], memory["details"]["free_bytes"]);
  EXPECT_EQ(error_of({"dequantize", "nope.npz", "-o", "y.npy"})["details"], nullptr);
}

TEST_F(BadInputTest, WordsThatAreNotWords) {
  expect_quantize_refused("good.npy", "invalid_argument", "absmaen", {"--scheme", "absmaen"});
  expect_quantize_refused("good.npy", "invalid_argument", "column", {"--granularity", "column"});
  expect_quantize_refused("good.npy", "invalid_argument", "i3", {"--format", "i3"});
  expect_quantize_refused("good.npy", "invalid_argument", "ignore", {"--non-finite", "ignore"});
  for (const char* group : {"group:0", "group:-1", "group:", "group:x", "group:1x", "group:99999999999999999999"})
    expect_quantize_refused("good.npy", "invalid_argument", std::string(group).substr(6), {"--granularity", group});
}

TEST_F(BadInputTest, ScalesThatScaleNothing) {
  for (const char* scale : {"0", "-1", "nan", "inf"})
    expect_quantize_refused("good.npy", "invalid_argument", scale, {"--scheme", "int2", "--scale", scale});
  for (const char* scale : {"abc", "1.0x", "1e60", "1e-60"})
    expect_quantize_refused("good.npy", "invalid_argument", scale, {"--scheme", "int2", "--scale", scale});
  expect_quantize_refused("good.npy", "invalid_argument", "absmean", {"--scheme", "absmean", "--scale", "1"});
}

TEST_F(BadInputTest, FormatsThatCannotHoldTheCodes) {
  expect_quantize_refused("good.npy", "invalid_argument", "s2", {"--scheme", "absmean", "--format", "s2"});
  expect_quantize_refused("good.npy", "invalid_argument", "i2", {"--scheme", "int2", "--format", "i2"});
  expect_quantize_refused("good.npy", "invalid_argument", "b3", {"--scheme", "int2", "--format", "b3"});
}

TEST_F(BadInputTest, QualityBelowTheLimitWritesNothing) {
  expect_quantize_refused("good.npy", "quality_below_limit", "dB, below the limit of 80 dB", {"--max-error", "80"});
  expect_quantize_refused("good.npy", "quality_below_limit", "--max-error", {"--max-error", "80"});
  expect_quantize_refused("good.npy", "invalid_argument", "--no-ready-check", {"--no-ready-check"});
  for (const char* limit : {"nan", "inf", "high"})
    expect_quantize_refused("good.npy", "invalid_argument", limit, {"--max-error", limit});
}

TEST_F(BadInputTest, OutputsThatCannotBe) {
  const auto to = [this](const std::string& output, const char* code, const char* value) {
    const bool named = output.find('.') != std::string::npos;
    expect_refused({"quantize", "good.npy", "-o", named ? output + "npz" : output}, code, value);
    expect_refused({"dequantize", "good.npz", "-o", named ? output + "npy" : output}, code, value);
  };
  to("folder", "io_error", "folder");
  to("missing/out.", "io_error", "missing");
  to("/proc/tern-output.", "io_error", "No such file");
  to("", "invalid_argument", "empty");
  for (const char* output : {"out", "out.gguf", "out.npy"})
    expect_refused({"quantize", "good.npy", "-o", output}, "invalid_argument", "as in 'out.npz'");
  for (const char* output : {"out", "out.txt", "out.npz"})
    expect_refused({"dequantize", "good.npz", "-o", output}, "invalid_argument", "as in 'out.npy'");
  for (const char* output : {"out.npy", "out.npz", "out.gguf"})
    expect_refused({"dequantize", "good.npz", "-o", output, "--dtype", "bf16"}, "invalid_argument", "out.bin");
  expect_refused({"quantize", "good.npy", "-o", "good.npy"}, "invalid_argument", "good.npy");
  expect_refused({"quantize", "good.npy", "-o", "./folder/../good.npy"}, "invalid_argument", "good.npy");
  expect_refused({"quantize", "good.npy", "-o", "link.npy"}, "invalid_argument", "link.npy");
  expect_refused({"dequantize", "good.npz", "-o", "good.npz"}, "invalid_argument", "good.npz");
}

TEST_F(BadInputTest, ADiskThatFillsUpLeavesNoPartOfAFile) {
  write_npy(path("large.npy"), "(512, 256)", random_weights(512 * 256, 1));
  const std::vector<std::string> before = files();
  // A file-size limit of 4 blocks of 512 bytes simulates a full disk.
  const Outcome outcome =
      start("/bin/sh", {"-c", "ulimit -f 4; " + command_path() + " quantize large.npy -o out.npz"}, folder());
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("io_error"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("out.npz"), std::string::npos) << outcome.err;
  EXPECT_EQ(files(), before);
}

TEST_F(BadInputTest, KernelsThatAreNot) {
  expect_quantize_refused("good.npy", "invalid_argument", "ternary_quantize.i2.abacus",
                          {"--kernel", "ternary_quantize.i2.abacus"});
  expect_quantize_refused("good.npy", "invalid_argument", "name cpu or cuda:0", {"--device", "auto"});
  expect_refused({"quantize", "good.npy", "-o", "out.npz"}, "invalid_argument", "banana", {"TERN_MAX_ISA=banana"});
}

TEST_F(BadInputTest, OpsAndShapesThatAreNot) {
  expect_refused({"kernels", "--op", "divide"}, "invalid_argument", "divide");
  expect_refused({"selftest", "--op", "divide"}, "invalid_argument", "divide");
  expect_refused({"explain", "divide", "--shape", "3x4"}, "invalid_argument", "divide");
  for (const char* shape : {"4096", "x", "3x", "x4", "3x-4", "-3x4", "3x4x5", "3.5x4", "99999999999999999999x4"})
    expect_refused({"explain", "ternary_quantize", "--shape", shape}, "invalid_argument", shape);
  expect_refused({"explain", "ternary_quantize", "--shape", "3x4", "--m", "5"}, "invalid_argument", "5");
  expect_refused({"explain", "linear", "--shape", "3x4", "--math", "w9"}, "invalid_argument", "w9");
  expect_refused({"explain", "ternary_quantize", "--shape", "4294967296x4294967296"}, "invalid_argument", "4294967296");
}

TEST_F(BadInputTest, OverridesThatCannotApplyAreRefusedByEveryCommand) {
  const Arguments convert = {"convert", "model", "-o", "out.gguf"}, verify = {"verify", "a", "b"};
  for (const Arguments& arguments : {Arguments{"devices"}, Arguments{"kernels"}, Arguments{"inspect", "model"}, convert,
                                     verify, Arguments{"quantize", "good.npy", "-o", "out.npz"}}) {
    expect_refused(arguments, "invalid_argument", "'nope'", {"TERN_FORCE_KERNEL=nope"});
    expect_refused(arguments, "invalid_argument", "banana", {"TERN_MAX_ISA=banana"});
#ifdef __x86_64__
    expect_refused(arguments, "invalid_argument", "arm_neon", {"TERN_MAX_ISA=arm_neon"});
#endif
  }
}

TEST_F(BadInputTest, TypesThatAnOpDoesNotTake) {
  expect_refused({"bench", "ternary_quantize", "--shape", "3x4", "--dtype", "i8"}, "invalid_argument", "'i8'");
  expect_refused({"bench", "linear", "--shape", "3x4", "--dtype", "f64"}, "invalid_argument", "'f64'");
}

TEST_F(BadInputTest, OptionsOfLinearWithOtherOps) {
  for (const char* op : {"ternary_quantize", "ternary_dequantize", "activation_quantize", "affine_quantize"}) {
    const std::string said = std::string(op) + " has no --";
    expect_refused({"bench", op, "--math", "w2a8"}, "invalid_argument", said + "math; linear and conv2d have");
    expect_refused({"bench", op, "--baselines"}, "invalid_argument", said + "baselines; linear and conv2d have");
    expect_refused({"explain", op, "--shape", "3x4", "--math", "w2_float"}, "invalid_argument", said + "math");
    expect_refused({"explain", op, "--shape", "3x4", "--tuning", "split=2"}, "invalid_argument", said + "tuning");
    expect_refused({"bench", op, "--tuning", "split=2"}, "invalid_argument", said + "tuning");
  }
}

TEST_F(BadInputTest, MethodsOfScalesThatAreNotChosen) {
  expect_refused({"bench", "affine_quantize", "--method", "mse"}, "invalid_argument",
                 "affine_quantize has no --method");
  expect_refused({"explain", "linear", "--shape", "3x4", "--precision", "f8"}, "invalid_argument", "'f8'");
  expect_refused({"explain", "ternary_quantize", "--shape", "3x4", "--precision", "f16"}, "invalid_argument",
                 "has no --precision");
  expect_refused({"explain", "linear", "--shape", "3x4", "--precision", "f16", "--dtype", "f16"}, "invalid_argument",
                 "was given with --dtype");
  expect_refused({"bench", "linear", "--shape", "3x4", "--precision", "f16", "--y", "f16"}, "invalid_argument",
                 "was given with --y");
  expect_refused({"explain", "linear", "--shape", "3x4", "--method", "mse"}, "invalid_argument", "linear has no");
  expect_refused({"explain", "choose_qparams", "--shape", "3x4", "--method", "median"}, "invalid_argument", "'median'");
  expect_refused({"explain", "dynamic_quantize", "--shape", "3x4", "--method", "mse"}, "invalid_argument", "mse looks");
}

TEST_F(BadInputTest, TuningsThatAreNot) {
  for (const Arguments& command : {Arguments{"explain", "linear", "--shape", "3x4"}, Arguments{"bench", "linear"}})
    for (const auto& [tuning, value] : {std::pair("split", "split"), {"threads=x", "'x'"}, {"split=2", "on cpu"}}) {
      Arguments arguments = command;
      arguments.insert(arguments.end(), {"--tuning", tuning});
      expect_refused(arguments, "invalid_argument", value);
    }
}

// Mistakes that the parser finds have exit code 2.
TEST_F(BadInputTest, CommandLinesThatDoNotParse) {
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"quantise", "good.npy"}, "quantise"},
      {{"quantize", "good.npy"}, "--output"},
      {{"quantize", "-o", "out.npz"}, "input"},
      {{"quantize", "good.npy", "-o", "out.npz", "--colour"}, "--colour"},
      {{"quantize", "good.npy", "-o", "out.npz", "--threads", "many"}, "'many' is not a whole number from 1 to 4096"},
      {{"quantize", "good.npy", "-o", "out.npz", "--threads", "0"}, "'0' is not a whole number from 1 to 4096"},
      {{"quantize", "good.npy", "-o", "out.npz", "--threads", "-3"}, "'-3' is not a whole number from 1 to 4096"},
      {{"quantize", "good.npy", "-o", "out.npz", "--threads", "99999"}, "'99999' is not a whole number"},
      {{"explain", "linear", "--shape", "3x4", "--m", "0"}, "'0' is not a whole number from 1 on"},
      {{"bench", "linear", "--repetitions", "0"}, "'0' is not a whole number from 1"},
      {{"quantize", "good.npy", "-o", "out.npz", "--scale"}, "--scale"},
      {{"quantize", "folder", "-o", "out.gguf", "--architecture", ""}, "--architecture: the value is empty"},
      {{"explain", "ternary_quantize"}, "--shape"},
      {{"devices", "extra"}, "extra"},
  };
  const std::vector<std::string> before = files();
  for (const auto& [arguments, value] : cases) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    const Outcome text = tern(arguments);
    EXPECT_EQ(text.exit_code, 2);
    EXPECT_EQ(text.out, "");
    EXPECT_NE(text.err.find(value), std::string::npos) << text.err;
    Arguments with_json = arguments;
    with_json.insert(with_json.begin() + 1, "--json");
    const Outcome outcome = tern(with_json);
    EXPECT_EQ(outcome.exit_code, 2);
    const json document = json::parse(outcome.err, nullptr, false);
    ASSERT_TRUE(document.is_object()) << outcome.err;
    EXPECT_EQ(document["error"]["code"], "invalid_argument");
  }
  EXPECT_EQ(files(), before);
}

}  // namespace
}  // namespace tern::cli_test
