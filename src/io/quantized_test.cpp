// Quantized tensors in .npz files: round trips, and every kind of disagreement between codes, scales and meta.
#include "io/quantized.h"

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/checked.h"
#include "format/checksum.h"
#include "format/format.h"
#include "io/npy.h"
#include "io/zip_store.h"
#include "tern/io.h"
#include "tests/support/test_files.h"

namespace tern {
namespace {

using nlohmann::json;

struct Description {
  Shape shape;
  std::int64_t rows;
  std::int64_t k;
  Scheme scheme = Scheme::absmean;
  Format format = Format::i2;
  Granularity granularity = {};
};

QuantizedTensor make(const Description& d) {
  QuantizedTensor tensor;
  tensor.shape = d.shape;
  tensor.scheme = d.scheme;
  tensor.format = d.format;
  tensor.granularity = d.granularity;
  Shape scales = {1};
  if (d.granularity.kind == Granularity::Kind::row) scales = {d.rows, 1};
  if (d.granularity.kind == Granularity::Kind::group) scales = {d.rows, ceil_div(d.k, d.granularity.group_size)};
  tensor.codes = *Tensor::allocate(host_memory(), code_dtype(d.format), {d.rows, row_bytes(d.format, d.k)});
  tensor.scales = *Tensor::allocate(host_memory(), DType::f32, scales);
  const CodeRange range = code_range(d.scheme);
  std::vector<std::int8_t> row(static_cast<std::size_t>(d.k));
  for (std::int64_t r = 0; r < d.rows; ++r) {
    for (std::size_t i = 0; i < row.size(); ++i)
      row[i] = static_cast<std::int8_t>(range.min + static_cast<int>(i * 5 + static_cast<std::size_t>(r)) %
                                                        (range.max - range.min + 1));
    pack_row(d.format, row.data(), d.k, tensor.codes.as<std::uint8_t>().data() + r * row_bytes(d.format, d.k));
  }
  float next = 0.25F;
  for (float& scale : tensor.scales.as<float>()) scale = next += 0.5F;
  return tensor;
}

void expect_equal(const QuantizedTensor& a, const QuantizedTensor& b) {
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.scheme, b.scheme);
  EXPECT_EQ(a.format, b.format);
  EXPECT_EQ(a.granularity, b.granularity);
  EXPECT_EQ(a.codes.dtype(), b.codes.dtype());
  EXPECT_EQ(a.codes.shape(), b.codes.shape());
  EXPECT_EQ(a.scales.shape(), b.scales.shape());
  EXPECT_TRUE(std::ranges::equal(a.quantized_data(), b.quantized_data()));
  EXPECT_TRUE(std::ranges::equal(a.scale_values(), b.scale_values()));
}

const Description kSmall{
    .shape = {2, 5}, .rows = 2, .k = 5, .scheme = Scheme::absmax, .granularity = Granularity::group(3)};

// An archive of the given members, each a header and its bytes.
std::string archive_of(const std::vector<std::pair<std::string, std::string>>& members) {
  const TempFolder folder;
  auto file = OutputFile::create(folder / "x.npz", "test");
  EXPECT_TRUE(file.ok());
  const Progress silent;
  ProgressMeter meter(silent, 0);
  ZipWriter zip(*file);
  for (const auto& [member, text] : members) EXPECT_TRUE(zip.add(member, bytes_of(text), {}, meter).ok());
  EXPECT_TRUE(zip.finish().ok());
  EXPECT_TRUE(file->commit().ok());
  return read_text(folder / "x.npz");
}

std::string npy_of(DType dtype, const Shape& shape, std::string_view data) {
  return *npy::make_header(dtype, shape) + std::string(data);
}

json good_meta() {
  const auto tensor = make(kSmall);
  const auto sum = checksum(tensor.codes.as<const std::uint8_t>(), tensor.scales.as<const std::uint8_t>());
  std::array<char, 17> hex{};
  std::snprintf(hex.data(), hex.size(), "%016lx", static_cast<unsigned long>(sum));
  return {{"scheme", "absmax"}, {"granularity", "group:3"}, {"format", "i2"},        {"shape", {2, 5}},
          {"version", 1},       {"tern", "0.0.0"},          {"checksum", hex.data()}};
}

// The parts of an archive of kSmall, which tests change before it is written.
struct Parts {
  json meta = good_meta();
  QuantizedTensor tensor = make(kSmall);
  std::string meta_text;  // replaces meta if not empty
  bool resum = true;      // recompute meta's checksum after the change
};

Result<QuantizedTensor> parse_with(const std::function<void(Parts&)>& change) {
  Parts parts;
  change(parts);
  const auto codes = parts.tensor.codes.as<const std::uint8_t>();
  const auto scales = parts.tensor.scales.as<const std::uint8_t>();
  if (parts.resum && parts.meta.is_object() && parts.meta.contains("checksum") && parts.meta["checksum"].is_string() &&
      parts.meta["checksum"].get<std::string>().size() == 16) {
    std::array<char, 17> hex{};
    std::snprintf(hex.data(), hex.size(), "%016lx", static_cast<unsigned long>(checksum(codes, scales)));
    parts.meta["checksum"] = hex.data();
  }
  const std::string text = parts.meta_text.empty() ? parts.meta.dump() : parts.meta_text;
  const std::string archive =
      archive_of({{"codes.npy", npy_of(parts.tensor.codes.dtype(), parts.tensor.codes.shape(), text_of(codes))},
                  {"scales.npy", npy_of(parts.tensor.scales.dtype(), parts.tensor.scales.shape(), text_of(scales))},
                  {"meta.npy", npy::make_text_header(text.size()) + text}});
  return parse_quantized(bytes_of(archive), host_memory());
}

TEST(Quantized, EveryKindRoundTrips) {
  const TempFolder folder;
  const std::string path = folder / "w.npz";
  for (const auto& [scheme, format] : {std::pair{Scheme::absmean, Format::i2}, std::pair{Scheme::mse, Format::i8},
                                       std::pair{Scheme::int2, Format::s2}, std::pair{Scheme::int2, Format::i8},
                                       std::pair{Scheme::absmax, Format::i2}, std::pair{Scheme::absmean, Format::b3}})
    for (const Granularity granularity :
         {Granularity::tensor(), Granularity::row(), Granularity::group(4), Granularity::group(1000)})
      for (Description d : {Description{Shape(), 1, 1}, Description{{7}, 1, 7}, Description{{3, 8}, 3, 8},
                            Description{{2, 3, 9}, 6, 9}}) {
        d.scheme = scheme;
        d.format = format;
        d.granularity = granularity;
        SCOPED_TRACE(std::string(name(scheme)) + ' ' + std::string(name(format)) + ' ' + name(granularity) +
                     name(d.shape));
        const auto tensor = make(d);
        const Status saved = save_quantized(path, tensor);
        ASSERT_TRUE(saved.ok()) << saved.error().str();
        std::string streamed;
        const Status written = write_quantized(
            [&](std::span<const std::uint8_t> bytes) {
              streamed += text_of(bytes);
              return Status();
            },
            tensor);
        ASSERT_TRUE(written.ok()) << written.error().str();
        EXPECT_EQ(streamed, read_text(path));
        const auto memory = with_statistics(host_memory());
        {
          const auto loaded = load_quantized(path, memory);
          ASSERT_TRUE(loaded.ok()) << loaded.error().str();
          expect_equal(tensor, *loaded);
          EXPECT_EQ(memory->statistics().bytes_in_use, tensor.codes.bytes() + tensor.scales.bytes());
          EXPECT_EQ(memory->statistics().peak_bytes, memory->statistics().bytes_in_use);
        }
        EXPECT_EQ(memory->statistics().bytes_in_use, 0U);
      }
  EXPECT_EQ(folder.count(), 1U);
}

TEST(Quantized, GoldenFileOfNumpy) {
  if (source_tests().empty()) GTEST_SKIP() << "the source tree with tests/data is not here";
  const auto tensor = load_quantized((source_tests() / "data/absmax_group3_i2_2x5.npz").string());
  ASSERT_TRUE(tensor.ok()) << tensor.error().str();
  EXPECT_EQ(tensor->shape, (Shape{2, 5}));
  EXPECT_EQ(tensor->scheme, Scheme::absmax);
  EXPECT_EQ(tensor->granularity, Granularity::group(3));
  EXPECT_EQ(tensor->format, Format::i2);
  const std::array<int, 10> trits = {1, 0, -1, 1, 1, 0, 0, -1, -1, 1};
  for (std::int64_t i = 0; i < 10; ++i)
    EXPECT_EQ(read_code(Format::i2, tensor->quantized_data().data() + i / 5 * 2, i % 5),
              trits[static_cast<std::size_t>(i)]);
  EXPECT_TRUE(std::ranges::equal(tensor->scale_values(), std::array{0.5F, 0.25F, 1.5F, 2.0F}));
}

TEST(Quantized, CorpusIsAnsweredAsItsNamesSay) {
  if (source_tests().empty()) GTEST_SKIP() << "the source tree with tests/corpus is not here";
  std::size_t good = 0;
  std::size_t bad = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_tests() / "corpus/npz")) {
    const auto tensor = load_quantized(entry.path().string());
    const bool expected = entry.path().filename().string().substr(0, 3) == "ok_";
    EXPECT_EQ(tensor.ok(), expected) << entry.path() << (tensor.ok() ? "" : tensor.error().str());
    ++(expected ? good : bad);
  }
  EXPECT_GE(good, 4U);
  EXPECT_GE(bad, 12U);
}

TEST(Quantized, MetaMayBeARowOfBytes) {
  const auto tensor = make(kSmall);
  const std::string meta = good_meta().dump();
  const std::string archive =
      archive_of({{"codes.npy", npy_of(DType::u8, {2, 2}, text_of(tensor.codes.as<const std::uint8_t>()))},
                  {"scales.npy", npy_of(DType::f32, {2, 2}, text_of(tensor.scales.as<const std::uint8_t>()))},
                  {"meta.npy", npy_of(DType::u8, {static_cast<std::int64_t>(meta.size())}, meta)},
                  {"notes.txt", "further members are left alone"}});
  const auto loaded = parse_quantized(bytes_of(archive), host_memory());
  ASSERT_TRUE(loaded.ok()) << loaded.error().str();
  expect_equal(tensor, *loaded);
}

TEST(Quantized, MetaThatIsWrongIsNamed) {
  const auto refuse = [](std::string_view part, const std::function<void(json&)>& change,
                         Code code = Code::corrupt_file) {
    expect_error(parse_with([&](Parts& parts) { change(parts.meta); }), code, part);
  };
  ASSERT_TRUE(parse_with([](Parts&) {}).ok());
  refuse("meta: the text is [], not a JSON object", [](json& m) { m = json::array(); });
  for (const char* key : {"scheme", "granularity", "format", "shape", "version", "tern", "checksum"})
    refuse("meta: there is no '" + std::string(key) + "'", [&](json& m) { m.erase(key); });
  refuse(
      "version is 2; tern", [](json& m) { m["version"] = 2; }, Code::unsupported);
  refuse("version is 1.0, not a whole number", [](json& m) { m["version"] = 1.0; });
  refuse("version is -1, not a whole number", [](json& m) { m["version"] = -1; });
  refuse("tern is 3, not a text", [](json& m) { m["tern"] = 3; });
  refuse("scheme: 'best' is not one of absmean", [](json& m) { m["scheme"] = "best"; });
  refuse("scheme: 'a\\x0ab' is not a known word", [](json& m) { m["scheme"] = "a\nb"; });
  refuse("granularity: group size '0'", [](json& m) { m["granularity"] = "group:0"; });
  refuse("granularity is null, not a text", [](json& m) { m["granularity"] = nullptr; });
  refuse("format: 'i3' is not one of i2", [](json& m) { m["format"] = "i3"; });
  refuse("format s2 does not hold the codes of scheme absmax", [](json& m) { m["format"] = "s2"; });
  refuse("shape is 5, not a list of at most 8 sizes", [](json& m) { m["shape"] = 5; });
  refuse("not a list of at most 8 sizes", [](json& m) { m["shape"] = json(std::vector<int>(9, 1)); });
  refuse("a size of shape is -2", [](json& m) { m["shape"] = {-2, 5}; });
  refuse("a size of shape is \"2\"", [](json& m) { m["shape"] = {"2", 5}; });
  refuse("a size of shape is 18446744073709551615", [](json& m) { m["shape"] = {UINT64_MAX, 5}; });
  refuse("more elements than 2^63 - 1", [](json& m) { m["shape"] = {INT64_MAX, 5}; });
  refuse("[2, 0] has no elements", [](json& m) { m["shape"] = {2, 0}; });
  refuse("[4611686018427387904, 0] has no elements", [](json& m) { m["shape"] = {INT64_MAX / 2 + 1, 0}; });
  refuse("'codes.npy' is u8 [2, 2], but meta says u8 [2, 3]", [](json& m) { m["shape"] = {2, 9}; });
  refuse("'codes.npy' is u8 [2, 2], but meta says i8 [2, 5]", [](json& m) { m["format"] = "i8"; });
  refuse("'scales.npy' is f32 [2, 2], but meta says f32 [2, 1]", [](json& m) { m["granularity"] = "row"; });
  refuse("checksum is \"12\", not 16 hexadecimal digits", [](json& m) { m["checksum"] = "12"; });
  expect_error(parse_with([](Parts& p) { p.meta_text = "{scheme: "; }), Code::corrupt_file, "'{scheme: ' is not JSON");
  expect_error(parse_with([](Parts& p) { p.meta_text = std::string(70000, '['); }), Code::corrupt_file,
               "70000 bytes; more than 65536 is refused");
  expect_error(parse_with([](Parts& p) { p.meta_text = std::string(60000, '['); }), Code::corrupt_file, "is not JSON");
  expect_error(parse_with([](Parts& p) { p.meta_text = "\"\xFF\xFE\""; }), Code::corrupt_file, "is not JSON");
}

TEST(Quantized, ValuesThatAreWrongAreNamed) {
  const auto wrong_code = parse_with([](Parts& p) { p.tensor.codes.as<std::uint8_t>()[2] |= 0x0C; });
  expect_error(wrong_code, Code::invalid_quantized_value,
               "element 6 (row 1) has the code 2, which absmax never produces");
  EXPECT_EQ(wrong_code.error().index, 6);
  expect_error(parse_with([](Parts& p) { p.tensor.codes.as<std::uint8_t>()[1] ^= 0x04; }),
               Code::invalid_quantized_value, "the padding after row 0 of the i2 codes");
  for (const float bad : {0.0F, -1.0F, NAN, INFINITY}) {
    const auto wrong_scale = parse_with([&](Parts& p) { p.tensor.scales.as<float>()[3] = bad; });
    expect_error(wrong_scale, Code::invalid_scale, "scale 3 is ");
    EXPECT_EQ(wrong_scale.error().index, 3);
  }
  expect_error(parse_with([](Parts& p) {
                 p.tensor.scales.as<float>()[0] = 9;
                 p.resum = false;
               }),
               Code::corrupt_file, "the checksum of codes and scales is");
}

TEST(Quantized, MissingOrForeignMembersAreNamed) {
  const std::string codes = npy_of(DType::u8, {2, 2}, "\x55\x55\x55\x55");
  const std::string meta = good_meta().dump();
  const auto parse = [](const std::vector<std::pair<std::string, std::string>>& members) {
    const std::string archive = archive_of(members);
    return parse_quantized(bytes_of(archive), host_memory());
  };
  expect_error(parse({{"codes.npy", codes}}), Code::corrupt_file,
               "there is no 'meta.npy' in it; was it written by tern?");
  expect_error(parse({{"meta.npy", npy::make_text_header(meta.size()) + meta}}), Code::corrupt_file, "no 'codes.npy'");
  expect_error(parse({{"meta.npy", npy_of(DType::f32, {1}, "1234")}}), Code::corrupt_file,
               "'meta.npy' is neither a text nor a row of u8");
  expect_error(parse({{"meta.npy", "hello"}}), Code::corrupt_file, "'meta.npy': it begins with 'hello'");
}

TEST(Quantized, EveryTruncationIsRefusedAndEveryChangedByteIsAnErrorOrChangesNothing) {
  const TempFolder folder;
  const auto tensor = make(kSmall);
  ASSERT_TRUE(save_quantized(folder / "w.npz", tensor).ok());
  const std::string archive = read_text(folder / "w.npz");
  for (std::size_t n = 0; n < archive.size(); ++n) {
    const std::vector<std::uint8_t> exact(archive.begin(), archive.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_EQ(parse_quantized(exact, host_memory()).code(), Code::corrupt_file) << n;
  }
  std::vector<std::uint8_t> changed(archive.begin(), archive.end());
  for (std::size_t i = 0; i < changed.size(); ++i)
    for (const std::uint8_t mask : {std::uint8_t{0x01}, std::uint8_t{0x80}, std::uint8_t{0xFF}}) {
      changed[i] ^= mask;
      SCOPED_TRACE(i);
      const auto loaded = parse_quantized(changed, host_memory());
      if (loaded.ok()) expect_equal(tensor, *loaded);
      changed[i] ^= mask;
    }
}

TEST(Quantized, FilesThatCannotBeOpenedAreNamed) {
  const TempFolder folder;
  expect_error(load_quantized(folder / "none.npz"), Code::io_error, "none.npz': No such file or directory");
  write_text(folder / "w.npz", "hello");
  const auto loaded = load_quantized(folder / "w.npz");
  expect_error(loaded, Code::corrupt_file, "w.npz': it begins with 'hell', not with PK");
  EXPECT_EQ(loaded.error().where, "load_quantized");
  expect_error(save_quantized(folder / "missing/w.npz", make(kSmall)), Code::io_error, "there is no folder");
}

TEST(Quantized, TensorsThatCannotBeWrittenLeaveNoFile) {
  const TempFolder folder;
  const auto refuse = [&](Code code, std::string_view part, const std::function<void(QuantizedTensor&)>& change) {
    auto tensor = make(kSmall);
    change(tensor);
    expect_error(save_quantized(folder / "w.npz", tensor), code, part);
  };
  refuse(Code::invalid_argument, "the codes are u8 [2, 2], but must be u8 [2, 3]", [](auto& t) { t.shape = {2, 9}; });
  refuse(Code::invalid_argument, "the scales are f32 [2, 2], but must be f32 [1]",
         [](auto& t) { t.granularity = Granularity::tensor(); });
  refuse(Code::invalid_argument, "group size 0 is not above 0", [](auto& t) { t.granularity.group_size = 0; });
  refuse(Code::invalid_argument, "format s2 does not hold", [](auto& t) { t.format = Format::s2; });
  refuse(Code::invalid_argument, "the negative size -2", [](auto& t) { t.shape = {-2, 5}; });
  refuse(Code::empty_input, "shape [0, 5] has no elements", [](auto& t) { t.shape = {0, 5}; });
  refuse(Code::invalid_argument, "the codes are", [](auto& t) { t.codes = Tensor(); });
  refuse(Code::invalid_quantized_value, "element 0 (row 0) has the code 2",
         [](auto& t) { t.codes.template as<std::uint8_t>()[0] |= 3; });
  refuse(Code::invalid_scale, "scale 0 is nan", [](auto& t) { t.scales.template as<float>()[0] = NAN; });
  EXPECT_EQ(folder.count(), 0U);
}

TEST(Quantized, ProgressEndsWhole) {
  const TempFolder folder;
  const auto tensor = make({.shape = {1024, 20000}, .rows = 1024, .k = 20000, .granularity = Granularity::row()});
  std::vector<std::pair<std::size_t, std::size_t>> calls;
  ASSERT_TRUE(save_quantized(folder / "w.npz", tensor, [&](std::size_t done, std::size_t total) {
                calls.emplace_back(done, total);
              }).ok());
  ASSERT_GE(calls.size(), 2U);
  EXPECT_LT(calls[0].first, calls[0].second);
  EXPECT_EQ(calls.back().first, calls.back().second);
  EXPECT_GT(calls.back().second, tensor.codes.bytes() + tensor.scales.bytes());
  const auto loaded = load_quantized(folder / "w.npz");
  ASSERT_TRUE(loaded.ok()) << loaded.error().str();
  expect_equal(tensor, *loaded);
}

}  // namespace
}  // namespace tern
