// The output of devices, kernels, explain and selftest, in text and JSON.
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "command.h"

namespace tern::cli_test {
namespace {

using nlohmann::json;

void expect_keys(const json& object, const std::set<std::string>& keys) {
  std::set<std::string> found;
  for (const auto& item : object.items()) found.insert(item.key());
  EXPECT_EQ(found, keys);
}

using DevicesTest = CommandTest;
using KernelsTest = CommandTest;
using ExplainTest = CommandTest;
using SelftestTest = CommandTest;

TEST_F(DevicesTest, JsonHasTheCpuWithNumbersAsNumbers) {
  const json document = tern_json({"devices"});
  expect_keys(document, {"devices", "notes"});
  ASSERT_FALSE(document["devices"].empty());
  const json& cpu = document["devices"][0];
  expect_keys(cpu,
              {"id", "name", "architecture", "capabilities", "cpu", "sockets", "cores", "hardware_threads",
               "usable_threads", "memory_total_bytes", "memory_available_bytes", "caches", "numa_nodes", "unusable"});
  EXPECT_EQ(cpu["id"], "cpu");
  EXPECT_GE(cpu["usable_threads"].get<int>(), 1);
  EXPECT_GT(cpu["memory_total_bytes"].get<std::int64_t>(), 0);
  for (const json& cache : cpu["caches"]) EXPECT_TRUE(cache["bytes"].is_number_unsigned());
}

TEST_F(DevicesTest, TextNamesTheSameDevice) {
  const json cpu = tern_json({"devices"})["devices"][0];
  const Outcome outcome = tern({"devices"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.out.find("cpu: " + cpu["name"].get<std::string>()), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos) << "colour where no terminal is";
}

TEST_F(KernelsTest, JsonListsEveryKernelAndTheReferenceRuns) {
  const json document = tern_json({"kernels"});
  bool reference_runs = false;
  for (const json& kernel : document["kernels"]) {
    expect_keys(kernel, {"name", "op", "format", "needs", "dtypes", "schemes", "in_build", "runs_here", "refused"});
    EXPECT_EQ(kernel["runs_here"].get<bool>(), kernel["refused"].is_null()) << kernel;
    if (kernel["name"] == "ternary_quantize.i2.reference") reference_runs = kernel["runs_here"];
  }
  EXPECT_TRUE(reference_runs);
}

TEST_F(KernelsTest, OpChoosesItsOwn) {
  const json all = tern_json({"kernels"})["kernels"];
  const json some = tern_json({"kernels", "--op", "ternary_dequantize"})["kernels"];
  EXPECT_LT(some.size(), all.size());
  EXPECT_FALSE(some.empty());
  for (const json& kernel : some) EXPECT_EQ(kernel["op"], "ternary_dequantize");
}

TEST_F(ExplainTest, SaysWhatIsChosenAndWhyNothingBetter) {
  const json document = tern_json({"explain", "ternary_quantize", "--shape", "64x100", "--granularity", "group:32"});
  expect_keys(document,
              {"op", "device", "threads", "problem", "chosen", "chosen_because", "plan", "rejections", "notes"});
  EXPECT_EQ(document["problem"]["rows"], 64);
  EXPECT_EQ(document["problem"]["cols"], 100);
  EXPECT_EQ(document["problem"]["granularity"], "group:32");
  EXPECT_EQ(document["problem"]["format"], "i2");
  EXPECT_TRUE(document["plan"]["workspace_bytes"].is_number_unsigned());
  EXPECT_TRUE(document["plan"].at("tuning").is_null());  // of CPU kernels, only those of linear have one
  for (const json& rejection : document["rejections"]) EXPECT_NE(rejection["reason"], "");
}

TEST_F(ExplainTest, AKernelByNameIsChosenAndThreadsAreTaken) {
  const std::string reference = "ternary_dequantize.i8.reference";
  const json document = tern_json(
      {"explain", "ternary_dequantize", "--shape", "3x5", "--format", "i8", "--kernel", reference, "--threads", "1"});
  EXPECT_EQ(document["chosen"], reference);
  EXPECT_EQ(document["threads"], 1);
}

TEST_F(ExplainTest, LinearSaysHowOneTokenReadsWeights) {
  const Arguments linear = {"explain", "linear", "--shape", "64x256", "--kernel", "linear.i2.scalar"};
  const json chosen = tern_json(linear)["plan"].at("tuning");
  EXPECT_GE(chosen["streams"], 1);
  EXPECT_TRUE(chosen["ahead_bytes"].is_number_unsigned());
  Arguments asked = linear;
  asked.insert(asked.end(), {"--tuning", "streams=1,ahead=4096"});
  EXPECT_EQ(tern_json(asked)["plan"].at("tuning"), json({{"streams", 1}, {"ahead_bytes", 4096}}));
  const Outcome text = tern(asked);
  EXPECT_NE(text.out.find("one token reads weights in 1 stream, 4096 bytes ahead in each"), std::string::npos)
      << text.out;
}

TEST_F(ExplainTest, APrecisionChoosesTheTypeAndSaysWhy) {
  const json document = tern_json({"explain", "linear", "--shape", "64x256", "--precision", "auto"});
  EXPECT_EQ(document["problem"]["dtype"], "f32");  // on a CPU
  EXPECT_EQ(document["problem"]["precision"]["asked"], "auto");
  EXPECT_EQ(document["problem"]["precision"]["used"], "f32");
  EXPECT_NE(document["problem"]["precision"]["because"], "");
}

TEST_F(ExplainTest, NoKernelIsExitCodeOneWithEveryReason) {
  const json document = tern_json({"explain", "ternary_quantize", "--shape", "3x5", "--dtype", "i32"}, 1);
  EXPECT_TRUE(document["chosen"].is_null());
  EXPECT_TRUE(document["plan"].is_null());
  EXPECT_FALSE(document["rejections"].empty());
  const Outcome text = tern({"explain", "ternary_quantize", "--shape", "3x5", "--dtype", "i32"});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_NE(text.out.find("every kernel refused"), std::string::npos) << text.out;
}

TEST_F(ExplainTest, AnOverrideTakesAndIsNoted) {
  const Arguments arguments = {"explain", "ternary_quantize", "--shape", "64x100", "--json"};
  const Outcome outcome = tern(arguments, {"TERN_MAX_ISA=scalar"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json document = json::parse(outcome.out);
  EXPECT_EQ(document["chosen"], "ternary_quantize.i2.scalar");
  EXPECT_FALSE(document["notes"].empty());
  EXPECT_EQ(tern(arguments, {"TERN_MAX_ISA=banana"}).exit_code, 2);
}

// Only scalar kernels run, so that every machine skips some and the test is short.
TEST_F(SelftestTest, EndsWithTheCountsAndTheyAgreeWithJson) {
  const Variables scalar = {"TERN_MAX_ISA=scalar"};
  const json document = tern_json({"selftest", "--op", "affine_dequantize", "--threads", "1"}, 0, scalar);
  EXPECT_EQ(document["threads"], 1);
  int passed = 0;
  int skipped = 0;
  for (const json& result : document["results"]) {
    expect_keys(result, {"op", "kernel", "status", "problems", "skipped", "difference"});
    EXPECT_EQ(result["op"], "affine_dequantize");
    EXPECT_EQ(result["status"] == "skipped", result["skipped"].is_string()) << result;
    EXPECT_EQ(result["status"] == "ok", result["problems"] > 0) << result;
    ++(result["status"] == "ok" ? passed : skipped);
  }
  EXPECT_GT(passed, 0);
  EXPECT_GT(skipped, 0);
  EXPECT_EQ(document["passed"], passed);
  EXPECT_EQ(document["failed"], 0);
  EXPECT_EQ(document["skipped"], skipped);

  const Outcome summary = tern({"selftest", "--op", "affine_dequantize", "--threads", "1", "--summary"}, scalar);
  EXPECT_EQ(summary.exit_code, 0) << summary.err;
  EXPECT_TRUE(std::regex_match(summary.out, std::regex("[1-9][0-9]* kernels agree with the reference on [1-9][0-9]* "
                                                       "problems\n[1-9][0-9]* passed, 0 failed, [0-9]+ skipped\n")))
      << summary.out;
  const Outcome text = tern({"selftest", "--op", "affine_dequantize", "--threads", "1"}, scalar);
  EXPECT_EQ(text.exit_code, 0);
  std::ostringstream counts;
  counts << '\n' << passed << " passed, 0 failed, " << skipped << " skipped\n";
  EXPECT_TRUE(text.out.ends_with(counts.str())) << text.out;
}

TEST_F(SelftestTest, RunsTheKernelsThatAreForcedAndNoOther) {
  const Arguments arguments = {"selftest", "--op", "linear", "--threads", "1"};
  const json document = tern_json(arguments, 0, {"TERN_FORCE_KERNEL=linear.i2.scalar,activation_quantize.i8.scalar"});
  EXPECT_EQ(document["passed"], 1);
  std::map<std::string, json> skipped;
  for (const json& result : document["results"]) skipped[result["kernel"]] = result["skipped"];
  EXPECT_TRUE(skipped["linear.i2.scalar"].is_null());
  EXPECT_EQ(skipped["linear.i2.reference"], "TERN_FORCE_KERNEL names linear.i2.scalar");
  EXPECT_EQ(skipped["linear.b3.scalar"], "TERN_FORCE_KERNEL names a kernel of another format");
  const Outcome nowhere = tern(arguments, {"TERN_FORCE_KERNEL=linear.i2.cuda_sm75"});
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_NE(nowhere.err.find("linear.i2.cuda_sm75 needs a CUDA device"), std::string::npos) << nowhere.err;
}

TEST_F(SelftestTest, EveryOpComparesAKernel) {
  std::map<std::string, std::string> scalar;  // a kernel of each op
  const json known = tern_json({"kernels"});
  for (const json& kernel : known["kernels"])
    if (const std::string name = kernel["name"]; name.ends_with(".scalar")) scalar.emplace(kernel["op"], name);
  EXPECT_GE(scalar.size(), 10U);
  for (const auto& [op, kernel] : scalar) {
    const json document = tern_json({"selftest", "--op", op, "--threads", "1"}, 0, {"TERN_FORCE_KERNEL=" + kernel});
    EXPECT_EQ(document["passed"], 1) << op;
    for (const json& result : document["results"])
      if (result["kernel"] == kernel) {
        EXPECT_GE(result["problems"], 60) << op;
      }
  }
}

// Runs the command linked with a stand-in selftest that reports a difference in its second kernel.
TEST_F(SelftestTest, ADifferenceIsNamedAndFails) {
#ifndef TERN_DIFFERING_CLI_PATH
  GTEST_SKIP() << "skipped: this build has no tern command";
#else
  if (!std::filesystem::exists(TERN_DIFFERING_CLI_PATH)) GTEST_SKIP() << "skipped: no " << TERN_DIFFERING_CLI_PATH;
  const Outcome text = start(TERN_DIFFERING_CLI_PATH, {"selftest"}, folder());
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_NE(text.out.find("DIFFERENT: 3 x 7: element 4 is 1"), std::string::npos) << text.out;
  EXPECT_TRUE(text.out.ends_with("\n1 passed, 1 failed, 1 skipped\n")) << text.out;
  const Outcome summary = start(TERN_DIFFERING_CLI_PATH, {"selftest", "--summary"}, folder());
  EXPECT_EQ(summary.exit_code, 1);
  EXPECT_EQ(summary.out,
            "1 of 2 kernels agree with the reference on 7 problems\n"
            "op.i2.bad: DIFFERENT: 3 x 7: element 4 is 1\n"
            "1 passed, 1 failed, 1 skipped\n");
  const Outcome outcome = start(TERN_DIFFERING_CLI_PATH, {"selftest", "--json"}, folder());
  EXPECT_EQ(outcome.exit_code, 1);
  const json document = json::parse(outcome.out);
  EXPECT_EQ(document["failed"], 1);
  EXPECT_EQ(document["results"][1]["status"], "different");
  EXPECT_EQ(document["results"][1]["difference"], "3 x 7: element 4 is 1");
#endif
}

TEST_F(CommandTest, VerboseLogsToStandardErrorOnly) {
  const Outcome quiet = tern({"explain", "ternary_quantize", "--shape", "3x5"});
  const Outcome verbose = tern({"explain", "ternary_quantize", "--shape", "3x5", "--verbose"});
  EXPECT_EQ(quiet.err, "");
  EXPECT_NE(verbose.err.find("selected ternary_quantize."), std::string::npos) << verbose.err;
  EXPECT_EQ(verbose.out, quiet.out);
}

}  // namespace
}  // namespace tern::cli_test
