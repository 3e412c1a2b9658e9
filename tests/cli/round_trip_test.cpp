// tern quantize and tern dequantize give the library's results bit for bit, and report them correctly.
#include <cstring>
#include <fstream>
#include <limits>

#include "command.h"
#include "npy_bytes.h"
#include "tern/tern.h"

namespace tern::cli_test {
namespace {

using nlohmann::json;

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

struct Case {
  const char* scheme;
  const char* granularity;
  const char* format;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.scheme << " " << c.granularity << " " << c.format;
}

class RoundTripTest : public CommandTest, public testing::WithParamInterface<Case> {};

// 7 rows of 131: multiples of no vector width.
TEST_P(RoundTripTest, GivesTheBitsOfTheLibrary) {
  const std::vector<float> x = random_weights(7 * 131, 3);
  write_npy(path("x.npy"), "(7, 131)", x);
  const auto [scheme, granularity, format] = GetParam();
  const json report = tern_json(
      {"quantize", "x.npy", "-o", "q.npz", "--scheme", scheme, "--granularity", granularity, "--format", format});
  ASSERT_EQ(tern({"dequantize", "q.npz", "-o", "y.npy", "--threads", "1"}).exit_code, 0);

  const Result<Context> context = Context::open();
  ASSERT_TRUE(context.ok()) << context.error().str();
  QuantizeOptions options;
  options.scheme = *parse_scheme(scheme);
  options.granularity = *parse_granularity(granularity);
  options.format = *parse_format(format);
  options.measure_quality = true;
  const auto expected = quantize(*context, ConstTensorView(x.data(), DType::f32, {7, 131}), options);
  ASSERT_TRUE(expected.ok()) << expected.error().str();
  const auto written = load_quantized(path("q.npz"));
  ASSERT_TRUE(written.ok()) << written.error().str();
  EXPECT_TRUE(same_bytes(written->codes, expected->codes));
  EXPECT_TRUE(same_bytes(written->scales, expected->scales));
  EXPECT_EQ(report["scheme"], scheme);
  EXPECT_EQ(report["granularity"], granularity);
  EXPECT_EQ(report["format"], format);
  EXPECT_EQ(report["quality"]["sqnr_db"].get<double>(), expected->quality->sqnr_db.value());
  EXPECT_EQ(report["quality"]["zero_fraction"].get<double>(), expected->quality->zero_fraction);

  const auto y = dequantize(*context, *expected);
  ASSERT_TRUE(y.ok()) << y.error().str();
  const std::vector<float> from_command = read_npy(path("y.npy"));
  ASSERT_EQ(from_command.size(), x.size());
  EXPECT_EQ(std::memcmp(from_command.data(), y->data(), y->bytes()), 0);
}

INSTANTIATE_TEST_SUITE_P(Schemes, RoundTripTest,
                         testing::Values(Case{"absmean", "tensor", "i2"}, Case{"absmean", "row", "i8"},
                                         Case{"absmax", "group:32", "i2"}, Case{"mse", "row", "i2"},
                                         Case{"mse", "tensor", "i8"}, Case{"int2", "group:50", "s2"},
                                         Case{"int2", "row", "i8"}, Case{"absmean", "row", "b3"},
                                         Case{"absmax", "group:32", "b3"}));

using QuantizeTest = CommandTest;
using DequantizeTest = CommandTest;

// The bytes of values; powers of two and their negatives are exact in every type.
template <class T>
std::string bytes_of(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

// 1, -0.5, 0.25, -2, 0, 4 in every type, as .npy or as raw data with --dtype and --shape.
TEST_F(QuantizeTest, EveryDtypeGivesTheSameCodes) {
  const std::string f16 = bytes_of<std::uint16_t>({0x3C00, 0xB800, 0x3400, 0xC000, 0, 0x4400});
  const std::string bf16 = bytes_of<std::uint16_t>({0x3F80, 0xBF00, 0x3E80, 0xC000, 0, 0x4080});
  const std::string f32 = bytes_of<float>({1, -0.5F, 0.25F, -2, 0, 4});
  const std::string f64 = bytes_of<double>({1, -0.5, 0.25, -2, 0, 4});
  write_bytes(path("f16.npy"), npy_header("<f2", false, "(2, 3)") + f16);
  write_bytes(path("f32.npy"), npy_header("<f4", false, "(2, 3)") + f32);
  write_bytes(path("f64.npy"), npy_header("<f8", false, "(2, 3)") + f64);
  const std::string want = tern_json({"quantize", "f32.npy", "-o", "q.npz"})["output"]["checksum"];
  for (const char* dtype : {"f16", "f32", "f64"}) {
    const json report = tern_json({"quantize", std::string(dtype) + ".npy", "-o", "q.npz"});
    EXPECT_EQ(report["output"]["checksum"], want) << dtype;
    EXPECT_EQ(report["input"]["dtype"], dtype);
    EXPECT_EQ(report["input"]["layout"], "npy");
  }
  for (const auto& [dtype, bytes] : {std::pair{"f16", f16}, {"bf16", bf16}, {"f32", f32}, {"f64", f64}}) {
    write_bytes(path("raw.bin"), bytes);
    const json report = tern_json({"quantize", "raw.bin", "--dtype", dtype, "--shape", "2x3", "-o", "q.npz"});
    EXPECT_EQ(report["output"]["checksum"], want) << dtype;
    EXPECT_EQ(report["input"]["dtype"], dtype);
    EXPECT_EQ(report["input"]["layout"], "raw");
    EXPECT_EQ(report["input"]["bytes"], bytes.size());
  }
}

TEST_F(DequantizeTest, EveryDtypeIsWrittenExactly) {
  write_npy(path("x.npy"), "(2, 2)", {0.5F, -0.5F, 0.5F, 0.0F});
  ASSERT_EQ(tern({"quantize", "x.npy", "-o", "q.npz", "--scheme", "absmax"}).exit_code, 0);
  const auto read = [this](const std::string& name) {
    std::ifstream file(path(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(tern_json({"dequantize", "q.npz", "-o", "y.npy", "--dtype", "f16"})["output"]["bytes"], 8);
  EXPECT_TRUE(read("y.npy").ends_with(bytes_of<std::uint16_t>({0x3800, 0xB800, 0x3800, 0})));
  EXPECT_NE(read("y.npy").find("'<f2'"), std::string::npos);
  EXPECT_EQ(tern_json({"dequantize", "q.npz", "-o", "y.npy", "--dtype", "f64"})["output"]["dtype"], "f64");
  EXPECT_TRUE(read("y.npy").ends_with(bytes_of<double>({0.5, -0.5, 0.5, 0.0})));
  EXPECT_NE(read("y.npy").find("'<f8'"), std::string::npos);
  const json raw = tern_json({"dequantize", "q.npz", "-o", "y.bin", "--dtype", "bf16"})["output"];
  EXPECT_EQ(raw["layout"], "raw");
  EXPECT_EQ(read("y.bin"), bytes_of<std::uint16_t>({0x3F00, 0xBF00, 0x3F00, 0}));
  // Quantize the raw output again.
  ASSERT_EQ(tern({"quantize", "y.bin", "--dtype", "bf16", "--shape", "2x2", "-o", "again.npz", "--scheme", "absmax"})
                .exit_code,
            0);
  EXPECT_EQ(load_quantized(path("again.npz"))->checksum(), load_quantized(path("q.npz"))->checksum());
}

TEST_F(QuantizeTest, ReportsSizesKernelTimesAndQuality) {
  write_npy(path("x.npy"), "(16, 64)", random_weights(1024, 5));
  const json report = tern_json({"quantize", "x.npy", "-o", "q.npz", "--granularity", "row", "--threads", "1"});
  EXPECT_EQ(report["input"]["shape"], json({16, 64}));
  EXPECT_EQ(report["input"]["bytes"], 4096);
  EXPECT_EQ(report["output"]["codes_bytes"], 256);
  EXPECT_EQ(report["output"]["scales_bytes"], 64);
  EXPECT_EQ(report["output"]["file_bytes"], std::filesystem::file_size(path("q.npz")));
  EXPECT_DOUBLE_EQ(report["ratio"].get<double>(), 4096.0 / 320);
  EXPECT_EQ(report["threads"], 1);
  EXPECT_EQ(report["kernel"].get<std::string>().substr(0, 20), "ternary_quantize.i2.");
  EXPECT_EQ(report["quality"]["lossless"], false);
  EXPECT_GT(report["seconds"]["quantizing"].get<double>(), 0);
  EXPECT_GT(report["gb_per_s"].get<double>(), 0);

  const Outcome text = tern({"quantize", "x.npy", "-o", "q.npz"});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_EQ(text.err, "") << "a progress bar where no terminal is";
  for (const char* word : {"SQNR", "cosine", "zeros", "times smaller", "GB/s", "ternary_quantize.i2."})
    EXPECT_NE(text.out.find(word), std::string::npos) << word << " in " << text.out;
}

TEST_F(QuantizeTest, LosslessAndUndefinedQualityAreNotNumbers) {
  write_npy(path("trits.npy"), "(4,)", {0.5f, -0.5f, 0.5f, -0.5f});
  const json lossless = tern_json({"quantize", "trits.npy", "-o", "q.npz"})["quality"];
  EXPECT_TRUE(lossless["sqnr_db"].is_null());
  EXPECT_EQ(lossless["lossless"], true);

  write_npy(path("zeros.npy"), "(4,)", {0, 0, 0, 0});
  const json undefined = tern_json({"quantize", "zeros.npy", "-o", "q.npz"})["quality"];
  EXPECT_TRUE(undefined["sqnr_db"].is_null());
  EXPECT_EQ(undefined["lossless"], false);
  EXPECT_TRUE(undefined["cosine"].is_null());
  EXPECT_EQ(undefined["zero_fraction"], 1.0);
}

TEST_F(QuantizeTest, OneAxisIsOneRow) {
  write_npy(path("x.npy"), "(10,)", random_weights(10, 2));
  ASSERT_EQ(tern({"quantize", "x.npy", "-o", "q.npz", "--granularity", "group:4"}).exit_code, 0);
  const auto written = load_quantized(path("q.npz"));
  ASSERT_TRUE(written.ok()) << written.error().str();
  EXPECT_EQ(written->shape, (Shape{10}));
  EXPECT_EQ(written->rows(), 1);
  EXPECT_EQ(written->scales.elements(), 3);
  ASSERT_EQ(tern({"dequantize", "q.npz", "-o", "y.npy"}).exit_code, 0);
  EXPECT_EQ(read_npy(path("y.npy")).size(), 10u);
}

TEST_F(QuantizeTest, AGivenScaleAndAKernelByNameAreTaken) {
  write_npy(path("x.npy"), "(4,)", {-1.5f, -0.5f, 0.5f, 0.75f});
  const json report = tern_json({"quantize", "x.npy", "-o", "q.npz", "--scheme", "int2", "--scale", "0.5", "--kernel",
                                 "ternary_quantize.s2.reference"});
  EXPECT_EQ(report["kernel"], "ternary_quantize.s2.reference");
  const auto written = load_quantized(path("q.npz"));
  ASSERT_TRUE(written.ok()) << written.error().str();
  EXPECT_EQ(written->scale_values()[0], 0.5f);
  ASSERT_EQ(tern({"dequantize", "q.npz", "-o", "y.npy"}).exit_code, 0);
  EXPECT_EQ(read_npy(path("y.npy")), (std::vector<float>{-1.0f, -0.5f, 0.5f, 0.5f}));
}

TEST_F(QuantizeTest, SaturateGoesOnWhereRejectStops) {
  const float infinity = std::numeric_limits<float>::infinity();
  write_npy(path("x.npy"), "(2, 2)", {1.0f, std::numeric_limits<float>::quiet_NaN(), -infinity, 0.0f});
  EXPECT_EQ(tern({"quantize", "x.npy", "-o", "q.npz"}).exit_code, 1);
  EXPECT_EQ(files(), std::vector<std::string>{"x.npy"});
  EXPECT_EQ(
      tern_json({"quantize", "x.npy", "-o", "q.npz", "--non-finite", "saturate", "--scheme", "absmax"})["non_finite"],
      "saturate");
}

TEST_F(QuantizeTest, AnOlderOutputIsReplacedWhole) {
  write_npy(path("x.npy"), "(64,)", random_weights(64, 9));
  write_bytes(path("q.npz"), std::string(10000, 'x'));
  ASSERT_EQ(tern({"quantize", "x.npy", "-o", "q.npz"}).exit_code, 0);
  EXPECT_TRUE(load_quantized(path("q.npz")).ok());
  EXPECT_EQ(files(), (std::vector<std::string>{"q.npz", "x.npy"}));
}

TEST_F(DequantizeTest, ReportsShapeSizesAndKernel) {
  write_npy(path("x.npy"), "(2, 3, 8)", random_weights(48, 4));
  ASSERT_EQ(tern({"quantize", "x.npy", "-o", "q.npz"}).exit_code, 0);
  const json report = tern_json({"dequantize", "q.npz", "-o", "y.npy"});
  EXPECT_EQ(report["output"]["shape"], json({2, 3, 8}));
  EXPECT_EQ(report["output"]["dtype"], "f32");
  EXPECT_EQ(report["output"]["bytes"], 192);
  EXPECT_EQ(report["input"]["codes_bytes"], 12);
  EXPECT_EQ(report["kernel"].get<std::string>().substr(0, 22), "ternary_dequantize.i2.");
  EXPECT_GT(report["seconds"]["dequantizing"].get<double>(), 0);
}

}  // namespace
}  // namespace tern::cli_test
