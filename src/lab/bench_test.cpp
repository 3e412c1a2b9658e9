// A small bench of every op: the fields of its records, its arithmetic, and the errors of a wrong request.
#include "lab/bench.h"
#include "lab/models.h"
#include "lab/op_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/fmt.h"
#include "device/topology.h"
#include "ops/ops.h"

namespace tern::lab {
namespace {

// Small enough for a test: the figures mean nothing, only which fields there are.
BenchRequest tiny(std::string op) {
  BenchRequest request;
  request.op = std::move(op);
  request.rows = 16;
  request.k = 1024;
  request.threads = {1};
  request.repetitions = 2;
  request.limit_bytes = std::size_t{1} << 18;
  request.cold_bytes = std::size_t{1} << 18;
  return request;
}

std::set<std::string> keys(const nlohmann::ordered_json& object) {
  std::set<std::string> found;
  for (const auto& [key, value] : object.items()) found.insert(key);
  return found;
}

class EveryOp : public testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(Bench, EveryOp, testing::Values("ternary_quantize", "ternary_dequantize"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(EveryOp, ReportsTheFieldsOfTheContract) {
  BenchRequest request = tiny(std::string(GetParam()));
  request.threads = {1, 2};
  const auto report = bench(request);
  ASSERT_TRUE(report.ok()) << report.error().str();
  const auto json = to_json(*report);
  EXPECT_EQ(keys(json), (std::set<std::string>{"machine", "records"}));
  std::set<std::string> of_machine = {"device",           "name",           "architecture", "capabilities", "cores",
                                      "hardware_threads", "usable_threads", "caches",       "memory_bytes", "limits",
                                      "tern_version",     "commit",         "date"};
  if (!host_device().cpu.vendor.empty()) of_machine.insert("cpu");  // x86 processors say it
  EXPECT_EQ(keys(json["machine"]), of_machine);
  ASSERT_EQ(json["records"].size(), 2U);
  EXPECT_EQ(json["records"][0]["threads"], 1);
  EXPECT_EQ(json["records"][1]["threads"], 2);
  const auto& record = json["records"][0];
  EXPECT_EQ(keys(record),
            (std::set<std::string>{"op", "kernel", "device", "problem", "threads", "weights", "median_us", "p10_us",
                                   "p90_us", "repetitions", "bytes", "gb_per_s", "gops", "limit", "baselines"}));
  EXPECT_EQ(record["op"], GetParam());
  EXPECT_EQ(record["device"], "cpu");
  EXPECT_EQ(record["weights"], "cold");
  EXPECT_EQ(record["repetitions"], 2);
  EXPECT_EQ(record["problem"]["rows"], 16);
  EXPECT_EQ(record["problem"]["cols"], 1024);
  EXPECT_TRUE(record["gops"].is_null());
  EXPECT_EQ(keys(record["limit"]), (std::set<std::string>{"name", "value", "share"}));
  EXPECT_TRUE(record["baselines"].empty());
}

// 16 rows of 1024: 65536 bytes of f32, 4096 bytes of i2 (16384 of i8), and one scale a tensor, row or group.
TEST_P(EveryOp, CountsInputOutputAndScales) {
  BenchRequest request = tiny(std::string(GetParam()));
  const auto bytes = [&] {
    const auto report = bench(request);
    EXPECT_TRUE(report.ok()) << report.error().str();
    return report.ok() ? report->records.front().bytes : 0;
  };
  EXPECT_EQ(bytes(), 65536 + 4096 + 4);
  request.granularity = Granularity::row();
  EXPECT_EQ(bytes(), 65536 + 4096 + 16 * 4);
  request.granularity = Granularity::group(100);  // eleven groups a row, the last one short
  EXPECT_EQ(bytes(), 65536 + 4096 + 16 * 11 * 4);
  request.format = Format::i8;
  EXPECT_EQ(bytes(), 65536 + 16384 + 16 * 11 * 4);
}

TEST_P(EveryOp, RateAndShareFollowFromTheMedian) {
  BenchRequest request = tiny(std::string(GetParam()));
  request.repetitions = 1;  // with one sample the share is the plain ratio
  request.weights = Weights::warm;
  const auto report = bench(request);
  ASSERT_TRUE(report.ok()) << report.error().str();
  const Record& record = report->records.front();
  EXPECT_EQ(record.weights, Weights::warm);
  ASSERT_GT(record.median_us, 0);
  EXPECT_DOUBLE_EQ(record.gb_per_s, static_cast<double>(record.bytes) / (record.median_us * 1e3));
  EXPECT_DOUBLE_EQ(record.limit.share, record.gb_per_s / record.limit.value);
  EXPECT_EQ(record.limit.name, GetParam() == "ternary_quantize" ? "streaming read" : "non-temporal write");
}

TEST_P(EveryOp, TimesExactlyTheKernelsThatWereAskedFor) {
  BenchRequest request = tiny(std::string(GetParam()));
  request.all_kernels = true;
  std::vector<std::string> steps;
  const auto all = bench(request, [&](const std::string& what) { steps.push_back(what); });
  ASSERT_TRUE(all.ok()) << all.error().str();
  const auto context = Context::open(DeviceId{});
  ASSERT_TRUE(context.ok());
  const auto listed = kernels(*context);
  ASSERT_TRUE(listed.ok());
  std::vector<std::string> expected, timed;
  for (const KernelDescription& kernel : *listed)
    if (kernel.op == GetParam() && kernel.format == "i2" && kernel.refused.empty() &&
        std::ranges::find(kernel.schemes, name(request.scheme)) != kernel.schemes.end())
      expected.push_back(kernel.name);
  for (const Record& record : all->records) timed.push_back(record.kernel);
  EXPECT_EQ(timed, expected);
  EXPECT_GT(timed.size(), 1U);
  EXPECT_EQ(steps.size(), 1 + timed.size());  // the weights, then each kernel

  request.all_kernels = false;
  for (const std::string& kernel : expected) {
    request.kernel = kernel;
    const auto one = bench(request);
    ASSERT_TRUE(one.ok()) << one.error().str();
    ASSERT_EQ(one->records.size(), 1U);
    EXPECT_EQ(one->records.front().kernel, kernel);
  }
}

TEST_P(EveryOp, ComparesWithTheReferenceThatRanToo) {
  BenchRequest request = tiny(std::string(GetParam()));
  request.all_kernels = true;
  request.threads = {1, 2};
  const auto report = bench(request);
  ASSERT_TRUE(report.ok()) << report.error().str();
  int references = 0;
  for (const Record& record : report->records) {
    if (record.kernel.ends_with(".reference")) {
      EXPECT_TRUE(record.baselines.empty());
      ++references;
      continue;
    }
    ASSERT_EQ(record.baselines.size(), 1U) << record.kernel;
    const Record::Baseline& baseline = record.baselines.front();
    EXPECT_TRUE(baseline.name.ends_with(".reference")) << baseline.name;
    EXPECT_DOUBLE_EQ(baseline.speedup, baseline.median_us / record.median_us);
  }
  EXPECT_EQ(references, 2);
}

TEST_P(EveryOp, RefusesAWrongRequestByName) {
  const auto refused = [](const BenchRequest& request, std::string_view part) {
    const auto report = bench(request);
    ASSERT_FALSE(report.ok()) << part;
    EXPECT_NE(report.error().message.find(part), std::string::npos) << report.error().str();
  };
  const BenchRequest right = tiny(std::string(GetParam()));
  BenchRequest request = right;
  request.kernel = "ternary_quantize.i2.abacus";
  refused(request, "ternary_quantize.i2.abacus");
  refused(request, right.op + ".i2.reference");  // the known ones
  request.kernel = right.op + ".s2.reference";   // known, but it does not take trits
  refused(request, "s2");
  request.kernel = right.op + ".i2.reference";
  request.all_kernels = true;
  refused(request, "not both");
  request = right;
  request.m = 4;
  refused(request, "has no m (it was given 4)");
  request = right;
  request.threads = {1, 0};
  refused(request, "0 threads");
  request = right;
  request.k = 0;
  refused(request, "16x0");
  request = right;
  request.granularity = Granularity::group(-3);
  refused(request, "-3");
  request = right;
  request.dtype = DType::i32;
  refused(request, "i32");
  request = right;
  request.scheme = Scheme::int2;
  request.format = Format::i2;
  refused(request, "int2");
}

// Neither the limits' buffer nor the problem's could be allocated here, so an error about a wrong word must come
// before.
TEST(Bench, RefusesAWrongWordBeforeItAllocates) {
  const auto refused = [](BenchRequest request, std::string_view part) {
    request.limit_bytes = std::size_t{1} << 60;
    const auto report = bench(request);
    ASSERT_FALSE(report.ok()) << part;
    EXPECT_NE(report.error().message.find(part), std::string::npos) << report.error().str();
  };
  const BenchRequest right{.op = "linear"};
  BenchRequest request = right;
  request.model = "nope";
  refused(request, "'nope' is not a known model");
  request.model = "bitnet-2b";
  request.kernel = "linear.s8.reference";
  refused(request, "linear.s8.reference is for s8");
  request = right;
  request.kernel = "linear.b3.scalar";
  request.rows = request.k = std::int64_t{1} << 23;
  refused(request, "linear.b3.scalar is for b3");
  request.kernel.clear();
  request.tuning.split = 2;
  refused(request, "on cpu");
  for (const std::string_view op : op_names()) {
    request = {.op = std::string(op), .rows = std::int64_t{1} << 23, .k = std::int64_t{1} << 23};
    request.kernel = fmt::format("{}.abacus", op);
    refused(request, "abacus");
    request.kernel.clear();
    request.dtype = DType::i32;
    refused(request, "i32");
    request.dtype.reset();
    refused(request, "bytes");  // without a mistake, memory is what is missing
  }
}

TEST(Bench, RefusesAnUnknownOpAndListsTheKnownOnes) {
  const auto report = bench(tiny("ternary_guess"));
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.code(), Code::invalid_argument);
  EXPECT_NE(report.error().message.find("'ternary_guess'"), std::string::npos) << report.error().str();
  EXPECT_NE(report.error().message.find("ternary_quantize, ternary_dequantize"), std::string::npos);
}

TEST(Bench, RefusesWhatDoesNotFitTheMemory) {
  BenchRequest request = tiny("ternary_quantize");
  request.rows = std::int64_t{1} << 40;
  const auto report = bench(request);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.code(), Code::insufficient_memory) << report.error().str();
}

TEST(Bench, WritesOperationsAndNotesWhereThereAreAny) {
  Record record;
  record.gops = 2.5;
  record.notes = {"memory is short"};
  const auto json = to_json({.machine = {}, .limits = {}, .date = "", .records = {record}})["records"][0];
  EXPECT_EQ(json["gops"], 2.5);
  EXPECT_EQ(json["notes"][0], "memory is short");
}

// 16 x 1024: 4096 bytes of codes and one scale; x is a byte an element, y an f32.
TEST(BenchLinear, CountsBytesAndOperationsAndChoosesItsLimit) {
  BenchRequest request = tiny("linear");
  auto report = bench(request);
  ASSERT_TRUE(report.ok()) << report.error().str();
  EXPECT_EQ(report->records.front().bytes, 4096 + 4 + 1024 + 16 * 4);
  EXPECT_EQ(report->records.front().limit.name, "streaming read");
  EXPECT_DOUBLE_EQ(*report->records.front().gops, 2 * 16 * 1024 / (report->records.front().median_us * 1e3));
  request.m = 8;
  request.weights = Weights::warm;
  request.repetitions = 1;
  report = bench(request);
  ASSERT_TRUE(report.ok()) << report.error().str();
  const Record& record = report->records.front();
  EXPECT_EQ(record.bytes, 4096 + 4 + 8 * (1024 + 16 * 4));
  EXPECT_EQ(record.limit.name, name(int8_limit(record.kernel)));
  if (record.limit.value > 0) {
    EXPECT_DOUBLE_EQ(record.limit.share, *record.gops / record.limit.value);
  }
  request.math = LinearMath::w2_float;
  report = bench(request);
  ASSERT_TRUE(report.ok()) << report.error().str();
  EXPECT_EQ(report->records.front().limit.name, "fma peak");
  EXPECT_EQ(report->records.front().problem["dtype"], "f32");
}

TEST(BenchLinear, AKernelIsComparedWithItsOwnInstructions) {
  EXPECT_EQ(int8_limit("linear.i2.x86_avx2"), Limit::int8_peak);
  EXPECT_EQ(int8_limit("linear.i2.x86_avx_vnni"), Limit::vnni_peak);
  EXPECT_EQ(int8_limit("linear.i2.x86_avx512vnni"), Limit::vnni_peak);
  EXPECT_EQ(int8_limit("linear.b3.x86_avx512vbmi"), Limit::vnni_peak);
  EXPECT_EQ(int8_limit("linear.i2.x86_amx_int8"), Limit::amx_peak);
}

TEST(BenchLinear, AModelIsTheSumOfItsProblems) {
  BenchRequest request = tiny("linear");
  request.rows = request.k = 0;
  request.model = "bitnet-2b";
  request.repetitions = 1;
  request.weights = Weights::warm;
  const auto report = bench(request);
  ASSERT_TRUE(report.ok()) << report.error().str();
  ASSERT_EQ(report->models.size(), 2U);  // int8 activations, and f32
  ASSERT_EQ(report->records.size(), 8U);
  double us = 0;
  for (std::size_t i = 0; i < 4; ++i) us += 30 * report->records[i].median_us;
  EXPECT_DOUBLE_EQ(report->models[0].milliseconds, us / 1e3);
  EXPECT_DOUBLE_EQ(report->models[0].items_per_s, 1e6 / us);
  EXPECT_GT(report->models[0].bytes, 520'000'000);  // the weights of the model
  EXPECT_LT(report->models[0].bytes, 525'000'000);
  EXPECT_EQ(to_json(*report)["models"][1]["x_dtype"], "f32");
  request.model = "gpt-2";
  EXPECT_EQ(bench(request).error().message, "'gpt-2' is not a known model; known is bitnet-2b");
}

// What a run of an image multiplies, of the papers and of torchvision's table, whose figures count the last, fully
// connected layers: 0.5 million of ResNet-18, 2 of ResNet-50, 1.3 of MobileNetV2, 124 of VGG-16.
TEST(BenchConv2d, NetworksHaveTheMultiplyAddsThatArePublished) {
  struct Network {
    const char* name;
    std::int64_t layers;  // with all repetitions
    double giga_with_fc, giga_fc;
  };
  for (const auto& [name, layers, with_fc, fc] : {Network{"resnet18", 17 + 3, 1.814, 512 * 1000e-9},
                                                  {"resnet50", 49 + 4, 4.089, 2048 * 1000e-9},
                                                  {"mobilenet_v2", 52, 0.301, 1280 * 1000e-9},
                                                  {"vgg16", 13, 15.470, (25088 + 1000 + 4096) * 4096e-9}}) {
    double products = 0;
    std::int64_t count = 0;
    for (const ConvLayer& layer : conv2d_layers(name)) {
      const Conv2d::Problem p = OpTraits<Conv2d>::problem({.window = layer.window});
      const auto y = Conv2d::output_size(p);
      ASSERT_TRUE(y.ok()) << y.error().str();
      const FilterShape& f = p.filters;
      products +=
          static_cast<double>(layer.times * f.out_channels * f.in_channels * f.height * f.width * y->height * y->width);
      count += layer.times;
    }
    EXPECT_EQ(count, layers) << name;
    EXPECT_NEAR(products / 1e9 + fc, with_fc, 0.0006) << name;
  }
  EXPECT_TRUE(conv2d_layers("resnet19").empty());
}

// 64 x 64 x 3 x 3 on an image of 56 x 56: a byte for each activation, a quarter for each weight, an f32 for each
// result.
TEST(BenchConv2d, CountsBytesAndOperations) {
  BenchRequest request = tiny("conv2d");
  request.rows = request.k = 0;
  request.weights = Weights::warm;
  const auto report = bench(request);
  ASSERT_TRUE(report.ok()) << report.error().str();
  const Record& record = report->records.front();
  EXPECT_EQ(record.bytes, 56 * 56 * 64 * 5 + 64 * 64 * 9 / 4);
  EXPECT_DOUBLE_EQ(*record.gops, 2.0 * 56 * 56 * 64 * 64 * 9 / (record.median_us * 1e3));
  EXPECT_EQ(record.limit.name, name(int8_limit(record.kernel)));
}

TEST(BenchConv2d, AModelIsTheSumOfItsLayers) {
  BenchRequest request = tiny("conv2d");
  request.rows = request.k = 0;
  request.model = "resnet18";
  request.dtype = DType::i8;
  request.m = 2;
  request.repetitions = 1;
  request.weights = Weights::warm;
  const auto report = bench(request);
  ASSERT_TRUE(report.ok()) << report.error().str();
  const std::vector<ConvLayer> layers = conv2d_layers("resnet18");
  ASSERT_EQ(report->models.size(), 1U);
  ASSERT_EQ(report->records.size(), layers.size());
  double us = 0;
  for (std::size_t i = 0; i < layers.size(); ++i)
    us += static_cast<double>(layers[i].times) * report->records[i].median_us;
  EXPECT_DOUBLE_EQ(report->models[0].milliseconds, us / 1e3);
  EXPECT_DOUBLE_EQ(report->models[0].items_per_s, 2e6 / us);
  EXPECT_NEAR(report->models[0].operations, 2 * 2 * 1.8135e9, 1e6);  // of two images, without the last layer
  const auto json = to_json(*report)["models"][0];
  EXPECT_EQ(json["images_per_s"], report->models[0].items_per_s);
  EXPECT_EQ(json["floor_images_per_s"], report->models[0].floor_items_per_s);
  request.model = "lenet";
  EXPECT_EQ(bench(request).error().message,
            "'lenet' is not a known model; known are resnet18, resnet50, mobilenet_v2, vgg16");
  request.model = "vgg16";
  request.window = WindowWords{};
  EXPECT_EQ(bench(request).error().message, "either a model or a shape, not both");
}

TEST(BenchConv2d, BaselinesAreTimedOrSaidToBeAbsent) {
  BenchRequest request = tiny("conv2d");
  request.rows = request.k = 0;
  request.baselines = true;
  for (const std::int64_t groups : {1, 2, 8}) {
    request.window = WindowWords{.filters = {16, 8 / groups, 3, 2}, .groups = groups, .height = 9, .width = 7};
    request.window->stride = {2, 1};
    request.window->dilation = {1, 2};
    const auto report = bench(request);
    ASSERT_TRUE(report.ok()) << report.error().str();
    const Record& record = report->records.front();
    EXPECT_EQ(record.baselines.size() + record.notes.size(), 4U);
    ASSERT_FALSE(record.baselines.empty());
    EXPECT_EQ(record.baselines.back().name, "naive loops");
    for (const Record::Baseline& b : record.baselines) EXPECT_GT(b.median_us, 0) << b.name;
    for (const std::string& note : record.notes) EXPECT_NE(note.find("not installed"), std::string::npos) << note;
  }
}

TEST(BenchLinear, APrecisionChoosesTheTypes) {
  BenchRequest request = tiny("linear");
  request.repetitions = 1;
  request.weights = Weights::warm;
  request.precision = Precision::automatic;
  const auto report = bench(request);
  ASSERT_TRUE(report.ok()) << report.error().str();
  EXPECT_EQ(report->records[0].problem["dtype"], "f32");
  const std::string note = "precision auto: f32, cpu computes in f32";
  EXPECT_NE(std::ranges::find(report->records[0].notes, note), report->records[0].notes.end());
  request.precision = Precision::bf16;
  const auto bf16 = bench(request);
  ASSERT_TRUE(bf16.ok()) << bf16.error().str();
  EXPECT_EQ(bf16->records[0].problem["dtype"], "bf16");
  EXPECT_EQ(bf16->records[0].problem["y"], "bf16");
  request.dtype = DType::f32;
  EXPECT_EQ(bench(request).error().message, "either precision bf16 or the dtype f32, not both");
  request = tiny("ternary_quantize");
  request.precision = Precision::f16;
  EXPECT_EQ(bench(request).error().message, "ternary_quantize has no precision; linear has");
}

TEST(BenchLinear, BaselinesAreTimedOrSaidToBeAbsent) {
  BenchRequest request = tiny("linear");
  request.baselines = true;
  for (const std::int64_t m : {1, 4}) {
    request.m = m;
    const auto report = bench(request);
    ASSERT_TRUE(report.ok()) << report.error().str();
    const Record& record = report->records.front();
    EXPECT_EQ(record.baselines.size() + record.notes.size(), 2U);
    for (const Record::Baseline& b : record.baselines) EXPECT_GT(b.median_us, 0) << b.name;
    for (const std::string& note : record.notes) EXPECT_NE(note.find("not installed"), std::string::npos) << note;
  }
}

TEST(BenchActivationQuantize, CountsBytes) {
  const auto report = bench(tiny("activation_quantize"));
  ASSERT_TRUE(report.ok()) << report.error().str();
  EXPECT_EQ(report->records.front().bytes, 16 * 1024 * 5 + 16 * 8);
}

TEST(OpSelftest, SkipsProblemsThatAKernelDoesNotTake) {
  const auto context = Context::open({.threads = 1});
  ASSERT_TRUE(context.ok());
  const auto all = kernels(*context);
  ASSERT_TRUE(all.ok());
  for (KernelDescription kernel : *all) {
    if (kernel.name != "ternary_quantize.i2.x86_avx512" || !kernel.refused.empty()) continue;
    const auto comparison = find_op(kernel.op)->selftest(*context, kernel);
    ASSERT_TRUE(comparison.ok()) << comparison.error().str();
    EXPECT_EQ(comparison->problems, 7 * 8);  // of mse: patterns, repetitions
    kernel.schemes.emplace_back("absmean");  // which it does not take
    const auto same = find_op(kernel.op)->selftest(*context, kernel);
    ASSERT_TRUE(same.ok()) << same.error().str();
    EXPECT_EQ(same->problems, 7 * 8);
    return;
  }
  GTEST_SKIP() << "skipped: no AVX-512 here";
}

}  // namespace
}  // namespace tern::lab
