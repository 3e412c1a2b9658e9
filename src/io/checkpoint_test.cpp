// Checkpoints as files: single, sharded and in folders; what open() refuses; how release() frees memory.
#include "tern/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "io/gguf_bytes.h"
#include "tests/support/test_files.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

std::vector<std::uint8_t> iota_bytes(std::size_t count, unsigned start) {
  std::vector<std::uint8_t> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(start + i);
  return bytes;
}

// Writes tensors of bytes, each counting up from the first letter of its name.
void write_file(const std::string& path, Container container, const Metadata& metadata,
                std::vector<StoredTensor> tensors) {
  auto writer = CheckpointWriter::create(path, container, metadata, std::move(tensors));
  ASSERT_TRUE(writer.ok()) << writer.error().str();
  for (const StoredTensor& tensor : writer->tensors())
    ASSERT_TRUE(writer->write(iota_bytes(tensor.bytes, static_cast<unsigned char>(tensor.name[0]))).ok());
  const Status finished = writer->finish();
  ASSERT_TRUE(finished.ok()) << finished.error().str();
  EXPECT_EQ(fs::file_size(path), writer->file_bytes());
}

void expect_data(const Checkpoint& checkpoint, std::string_view name, std::size_t bytes) {
  const auto index = checkpoint.find(name);
  ASSERT_TRUE(index) << name;
  EXPECT_EQ(checkpoint.tensors()[*index].name, name);
  EXPECT_EQ(checkpoint.tensors()[*index].bytes, bytes);
  EXPECT_TRUE(std::ranges::equal(checkpoint.data(*index), iota_bytes(bytes, static_cast<unsigned char>(name[0]))))
      << name;
}

StoredTensor bytes_tensor(std::string name, std::int64_t count) {
  return {.name = std::move(name), .type = StoredType::i8, .shape = {count}};
}

TEST(Checkpoint, BothContainersRoundTrip) {
  for (const Container container : {Container::safetensors, Container::gguf}) {
    SCOPED_TRACE(name(container));
    const TempFolder folder;
    const std::string path = folder / "model.any";  // the first bytes decide, not the name
    const Metadata metadata = {{"tern.version", MetaValue("1")}, {"b", MetaValue("")}};
    write_file(path, container, metadata,
               {bytes_tensor("a", 5),
                {.name = "w", .type = StoredType::f32, .shape = {3, 7}},
                {.name = "e", .type = StoredType::f16, .shape = {0, 4}},
                {.name = "s", .type = StoredType::bf16, .shape = {}}});
    const auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().str();
    EXPECT_EQ(checkpoint->container(), container);
    EXPECT_EQ(checkpoint->path(), path);
    EXPECT_EQ(checkpoint->metadata(), metadata);
    EXPECT_EQ(checkpoint->tensors().size(), 4U);
    EXPECT_EQ(checkpoint->total_bytes(), 5U + 84U + 2U);
    ASSERT_EQ(checkpoint->files().size(), 1U);
    EXPECT_EQ(checkpoint->files()[0].path, path);
    EXPECT_EQ(checkpoint->files()[0].bytes, fs::file_size(path));
    EXPECT_TRUE(checkpoint->notes().empty());
    expect_data(*checkpoint, "a", 5);
    expect_data(*checkpoint, "w", 84);
    expect_data(*checkpoint, "e", 0);
    expect_data(*checkpoint, "s", 2);
    EXPECT_EQ(checkpoint->tensors()[*checkpoint->find("w")].shape, (std::vector<std::int64_t>{3, 7}));
    EXPECT_FALSE(checkpoint->find("x"));
    EXPECT_TRUE(checkpoint->data(99).empty());
    const auto opened = Checkpoint::open(folder.path().string());
    expect_error(opened, Code::invalid_argument, "holds no .safetensors and no .gguf file");
  }
}

TEST(Checkpoint, ReadingAndWritingAgainGivesTheSameFile) {
  for (const Container container : {Container::safetensors, Container::gguf}) {
    const TempFolder folder;
    write_file(folder / "one", container, {{"k", MetaValue("v")}},
               {{.name = "w", .type = StoredType::f32, .shape = {3, 7}}, bytes_tensor("a", 5)});
    const auto checkpoint = Checkpoint::open(folder / "one");
    ASSERT_TRUE(checkpoint.ok());
    auto writer = CheckpointWriter::create(folder / "two", container, checkpoint->metadata(),
                                           {checkpoint->tensors().begin(), checkpoint->tensors().end()});
    ASSERT_TRUE(writer.ok());
    for (std::size_t i = 0; i < 2; ++i) ASSERT_TRUE(writer->write(checkpoint->data(i)).ok());
    ASSERT_TRUE(writer->finish().ok());
    EXPECT_EQ(read_text(folder / "one"), read_text(folder / "two"));
  }
}

TEST(Checkpoint, OldTypeIdsSurviveACopy) {
  const TempFolder folder;
  const StoredTensor old{.name = "w", .type = StoredType::tl2, .shape = {32, 512}, .gguf_id = 39};
  write_file(folder / "m.gguf", Container::gguf, {}, {old});
  const auto checkpoint = Checkpoint::open(folder / "m.gguf");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().str();
  EXPECT_EQ(checkpoint->tensors()[0].type, StoredType::tl2);
  EXPECT_EQ(checkpoint->tensors()[0].gguf_id, 39);
  write_file(folder / "n.gguf", Container::gguf, {}, {checkpoint->tensors()[0]});
  EXPECT_EQ(read_text(folder / "m.gguf"), read_text(folder / "n.gguf"));
}

TEST(Checkpoint, ATypeIdMeansOneThingInAFile) {
  const TempFolder folder;
  const StoredTensor tl2{.name = "t", .type = StoredType::tl2, .shape = {32, 512}, .gguf_id = 39};
  const StoredTensor mxfp4{.name = "m", .type = StoredType::mxfp4, .shape = {32, 512}};
  const auto refused = CheckpointWriter::create(folder / "m.gguf", Container::gguf, {}, {tl2, mxfp4});
  expect_error(refused, Code::unsupported, "both are type id 39 of GGUF; with WriteOptions::tl2_id");
  StoredTensor later = tl2;
  later.gguf_id = 42;
  EXPECT_TRUE(CheckpointWriter::create(folder / "m.gguf", Container::gguf, {}, {later, mxfp4}).ok());
}

class Shards : public testing::Test {
 protected:
  void SetUp() override {
    write_file(folder / "model-1.safetensors", Container::safetensors,
               {{"format", MetaValue("pt")}, {"part", MetaValue("1")}}, {bytes_tensor("a", 5), bytes_tensor("b", 6)});
    fs::create_directory(folder / "sub");
    write_file(folder / "sub/model-2.safetensors", Container::safetensors,
               {{"format", MetaValue("pt")}, {"part", MetaValue("2")}}, {bytes_tensor("c", 7)});
  }
  void write_index(const std::string& map, int total) const {
    write_text(index, "{\"metadata\":{\"total_size\":" + std::to_string(total) + "},\"weight_map\":{" + map + "}}");
  }
  const TempFolder folder;
  const std::string index = folder / "model.safetensors.index.json";
  const std::string whole_map = R"("a":"model-1.safetensors","b":"model-1.safetensors","c":"sub/model-2.safetensors")";
};

TEST_F(Shards, OpenAsOneByIndexOrFolder) {
  write_index(whole_map, 18);
  for (const std::string& path : {index, folder.path().string()}) {
    const auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().str();
    EXPECT_EQ(checkpoint->container(), Container::safetensors);
    EXPECT_EQ(checkpoint->files().size(), 2U);
    expect_data(*checkpoint, "a", 5);
    expect_data(*checkpoint, "b", 6);
    expect_data(*checkpoint, "c", 7);
    EXPECT_TRUE(checkpoint->notes().empty());
    // Keys with equal values appear once, those with different values once per shard.
    EXPECT_EQ(checkpoint->metadata(), (Metadata{{"format", MetaValue("pt")},
                                                {"part", MetaValue("1")},
                                                {"model-2.safetensors:part", MetaValue("2")}}));
  }
}

TEST_F(Shards, OddThingsAreNoted) {
  write_index(R"("a":"model-1.safetensors","c":"sub/model-2.safetensors")", 12);
  const auto checkpoint = Checkpoint::open(index);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().str();
  EXPECT_TRUE(checkpoint->find("b"));
  ASSERT_EQ(checkpoint->notes().size(), 2U);
  EXPECT_NE(checkpoint->notes()[0].find("hold 1 tensors that the weight_map"), std::string::npos);
  EXPECT_NE(checkpoint->notes()[1].find("says total_size is 12; the tensors have 18"), std::string::npos);
}

TEST_F(Shards, WrongThingsAreErrors) {
  write_index(whole_map + R"(,"d":"model-1.safetensors")", 18);
  expect_error(Checkpoint::open(index), Code::corrupt_file, "tensor 'd' is not in 'model-1.safetensors'");
  write_index(R"("a":"sub/model-2.safetensors","b":"model-1.safetensors")", 18);
  expect_error(Checkpoint::open(index), Code::corrupt_file, "tensor 'a' is not in 'sub/model-2.safetensors'");
  write_index(whole_map + R"(,"d":"model-3.safetensors")", 18);
  expect_error(Checkpoint::open(index), Code::io_error, "model-3.safetensors': No such file");
  write_index(R"("a":"../x.safetensors")", 18);
  expect_error(Checkpoint::open(index), Code::corrupt_file, "index.json': weight_map: '../x.safetensors' leads out");
  write_index("\"a\":\"x\xC2\x9B.safetensors\"", 18);  // a control character that terminals obey
  expect_error(Checkpoint::open(index), Code::corrupt_file, "weight_map: 'x\\xc2\\x9b.safetensors' has characters");
  fs::copy(folder / "model-1.safetensors", folder / "model-4.safetensors");
  write_index(whole_map + R"(,"d":"model-4.safetensors")", 18);
  expect_error(Checkpoint::open(index), Code::corrupt_file, "tensor 'a' is in both");
  write_text(folder / "model-4.safetensors", "x");
  expect_error(Checkpoint::open(index), Code::corrupt_file, "model-4.safetensors': it ends after 1 bytes");
  fs::remove(folder / "model-4.safetensors");
  ASSERT_EQ(::mkfifo((folder / "model-4.safetensors").c_str(), 0600), 0);
  expect_error(Checkpoint::open(index), Code::io_error, "a pipe, not a regular file");
}

TEST(CheckpointFolder, HoldsOneCheckpointOrItsUsualName) {
  const TempFolder folder;
  const std::string path = folder.path().string();
  write_file(folder / "x.safetensors", Container::safetensors, {}, {bytes_tensor("x", 1)});
  EXPECT_TRUE(Checkpoint::open(path)->find("x"));
  write_file(folder / "y.safetensors", Container::safetensors, {}, {bytes_tensor("y", 1)});
  expect_error(Checkpoint::open(path), Code::invalid_argument, "name one of them: x.safetensors, y.safetensors");
  write_file(folder / "model.safetensors", Container::safetensors, {}, {bytes_tensor("m", 1)});
  EXPECT_TRUE(Checkpoint::open(path)->find("m"));
  write_file(folder / "z.gguf", Container::gguf, {}, {bytes_tensor("z", 1)});
  expect_error(Checkpoint::open(path), Code::invalid_argument, "both .safetensors and .gguf");
  for (const char* file : {"x.safetensors", "y.safetensors", "model.safetensors"}) fs::remove(folder / file);
  EXPECT_TRUE(Checkpoint::open(path)->find("z"));
  write_text(folder / ".hidden.gguf", "");
  EXPECT_TRUE(Checkpoint::open(path)->find("z"));
  for (int i = 0; i < 9; ++i) write_text(folder / (std::to_string(i) + ".gguf"), "");
  expect_error(Checkpoint::open(path), Code::invalid_argument, "0.gguf, 1.gguf, 2.gguf, 3.gguf, ...");
}

TEST(Checkpoint, WhatIsNoneIsRefused) {
  const TempFolder folder;
  expect_error(Checkpoint::open(folder / "no"), Code::io_error, "no': No such file");
  write_text(folder / "empty", "");
  expect_error(Checkpoint::open(folder / "empty"), Code::corrupt_file, "empty': the file is empty");
  write_text(folder / "zip", "PK\x03\x04 and so on, a little longer");
  expect_error(Checkpoint::open(folder / "zip"), Code::invalid_argument, "zip': it is a zip archive, not a checkpoint");
  write_text(folder / "npy", "\x93NUMPY and so on, a little longer");
  expect_error(Checkpoint::open(folder / "npy"), Code::invalid_argument, "npy': it is a .npy file, one tensor");
  write_text(folder / "model.safetensors", "version https://git-lfs.github.com/spec/v1\n");
  expect_error(Checkpoint::open(folder.path()), Code::invalid_argument, "model.safetensors': it is a pointer of Git");
  write_text(folder / "prose", "Call me Ishmael. Some years ago");
  expect_error(Checkpoint::open(folder / "prose"), Code::corrupt_file,
               "neither GGUF's magic nor the length of a safetensors");
  write_text(folder / "x.json", "[]");
  expect_error(Checkpoint::open(folder / "x.json"), Code::corrupt_file, "x.json': it is a list");
  write_text(folder / "text", "{\"weight_map\":{\"a\":1}}");
  expect_error(Checkpoint::open(folder / "text"), Code::corrupt_file, "weight_map: 'a' is a number");
  EXPECT_EQ(Checkpoint::open(folder / "empty").error().where, "Checkpoint::open");
}

// The error for a .gguf file in another format shows its first bytes; it does not say that it is no .safetensors file.
TEST(Checkpoint, AWrongMagicIsNamed) {
  const TempFolder folder;
  const auto expect_refused = [&](std::string_view bytes, Code code, std::string_view part) {
    write_text(folder / "m.gguf", bytes);
    const auto opened = Checkpoint::open(folder / "m.gguf");
    expect_error(opened, code, part);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().message.find(".safetensors file?"), std::string::npos);
  };
  expect_refused("", Code::corrupt_file, "m.gguf': the file is empty; a GGUF file begins with GGUF");
  expect_refused("GG", Code::corrupt_file, "it ends after 2 bytes, inside the magic 'GGUF': it is truncated");
  expect_refused("Call me Ishmael", Code::corrupt_file,
                 "it begins with 'Call', where a GGUF file has 'GGUF': it is damaged, or in another format");
  expect_refused(std::string(100, '\0'), Code::corrupt_file, "it begins with '\\x00\\x00\\x00\\x00', where a GGUF");
  expect_refused("PK\x03\x04 and so on", Code::invalid_argument, "it is a zip archive");
  expect_refused("lmgg\1\0\0\0 and so on", Code::invalid_argument, "it is a file of ggml from before GGUF");
  expect_refused("<!doctype html><html>", Code::invalid_argument, "it is a web page");
  expect_refused("\x1f\x8b\x08 and so on", Code::invalid_argument, "it is compressed by gzip");
}

// The length word of a 640-byte header begins like a Python pickle.
TEST(Checkpoint, ALengthThatLooksLikeAnotherFormatIsALength) {
  const TempFolder folder;
  std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  header.append(640 - header.size(), ' ');
  std::string file;
  append_le(file, std::uint64_t{header.size()});
  ASSERT_TRUE(file.starts_with("\x80\x02"));
  write_text(folder / "m.safetensors", file + header + "x");
  EXPECT_TRUE(Checkpoint::open(folder / "m.safetensors").ok());
  write_text(folder / "p.bin", "\x80\x02}q\x01 and so on, a little longer");
  expect_error(Checkpoint::open(folder / "p.bin"), Code::invalid_argument, "it is a Python pickle");
}

std::string part_name(int part, int count) {
  return "m-0000" + std::to_string(part) + "-of-0000" + std::to_string(count) + ".gguf";
}

// One part as llama-gguf-split writes it.
void write_part(const TempFolder& folder, int part, int count, int all_tensors, Metadata metadata,
                std::vector<StoredTensor> tensors) {
  metadata.push_back({"split.no", MetaValue(static_cast<std::uint16_t>(part - 1))});
  metadata.push_back({"split.count", MetaValue(static_cast<std::uint16_t>(count))});
  metadata.push_back({"split.tensors.count", MetaValue(std::int32_t{all_tensors})});
  write_file(folder / part_name(part, count), Container::gguf, metadata, std::move(tensors));
}

TEST(Checkpoint, PartsOfAGgufModelAreOne) {
  const TempFolder folder;
  write_part(folder, 1, 3, 3, {{"general.architecture", MetaValue("bitnet")}}, {});  // metadata alone, as an option has
  write_part(folder, 2, 3, 3, {}, {bytes_tensor("a", 5), bytes_tensor("b", 70)});
  write_part(folder, 3, 3, 3, {}, {bytes_tensor("c", 9)});
  for (const std::string& path : {folder / part_name(1, 3), folder.path().string()}) {
    const auto checkpoint = Checkpoint::open(path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().str();
    EXPECT_EQ(checkpoint->container(), Container::gguf);
    EXPECT_EQ(checkpoint->files().size(), 3U);
    EXPECT_EQ(checkpoint->tensors().size(), 3U);
    EXPECT_EQ(checkpoint->total_bytes(), 84U);
    expect_data(*checkpoint, "a", 5);
    expect_data(*checkpoint, "b", 70);
    expect_data(*checkpoint, "c", 9);
    EXPECT_EQ(checkpoint->metadata(), (Metadata{{"general.architecture", MetaValue("bitnet")}})) << "no split.*";
  }
  write_part(folder, 1, 2, 1, {}, {bytes_tensor("z", 1)});
  expect_error(Checkpoint::open(folder.path().string()), Code::invalid_argument,
               "name one of them: m-00001-of-00002.gguf, m-00001-of-00003.gguf");
  expect_error(Checkpoint::open(folder / part_name(1, 2)), Code::io_error, "m-00002-of-00002.gguf': No such file");
  expect_error(Checkpoint::open(folder / part_name(2, 3)), Code::invalid_argument,
               "is part 2 of 3; name the first part, 'm-00001-of-00003.gguf'");
}

TEST(Checkpoint, PartsThatDoNotBelongTogetherAreRefused) {
  const TempFolder folder;
  const std::string path = folder / part_name(1, 2);
  const auto again = [&](int second, int count, int tensors, const char* name) {
    write_part(folder, 1, 2, 2, {}, {bytes_tensor("a", 5)});
    write_part(folder, second, count, tensors, {}, {bytes_tensor(name, 5)});
    if (second != 2 || count != 2) fs::rename(folder / part_name(second, count), folder / part_name(2, 2));
  };
  again(2, 2, 2, "b");
  EXPECT_TRUE(Checkpoint::open(path).ok());
  again(2, 2, 2, "a");
  expect_error(Checkpoint::open(path), Code::corrupt_file, "tensor 'a' is in both");
  again(3, 3, 2, "b");
  expect_error(Checkpoint::open(path), Code::corrupt_file, "says it is part 3 of 3 with 2 tensors; by the first part");
  again(2, 2, 7, "b");
  expect_error(Checkpoint::open(path), Code::corrupt_file, "part 2 of 2 with 7 tensors");
  write_part(folder, 1, 2, 9, {}, {bytes_tensor("a", 5)});
  write_part(folder, 2, 2, 9, {}, {bytes_tensor("b", 5)});
  expect_error(Checkpoint::open(path), Code::corrupt_file, "says that its parts have 9 tensors; they have 2");
  write_text(folder / part_name(2, 2), "GG");
  expect_error(Checkpoint::open(path), Code::corrupt_file, "m-00002-of-00002.gguf': it ends after 2 bytes, inside");
  // The keys say that it is a part, but with another name the other parts cannot be found.
  fs::rename(path, folder / "m.gguf");
  expect_error(Checkpoint::open(folder / "m.gguf"), Code::invalid_argument, "must end with '-00001-of-00002.gguf'");
  // Numbers that no real file has.
  for (const char* key : {"split.no", "split.count"}) {
    const Metadata hostile = {{"split.count", MetaValue(std::uint16_t{2})}, {key, MetaValue(std::int64_t{INT64_MAX})}};
    Metadata metadata;
    for (const MetaEntry& entry : hostile) set_key(metadata, entry.key, entry.value);
    write_file(folder / "h.gguf", Container::gguf, metadata, {bytes_tensor("a", 5)});
    EXPECT_EQ(Checkpoint::open(folder / "h.gguf").code(), Code::invalid_argument) << key;
  }
}

// Ids 39 and 42 get one meaning in all parts: by the metadata of the first part, or by what an earlier part needed.
TEST(Checkpoint, PartsAgreeOnTheMeaningOfAnId) {
  const auto number = [](std::string_view name, std::uint16_t value) {
    return gguf::key(name, 2, {static_cast<char>(value & 0xFF), static_cast<char>(value >> 8)});
  };
  const auto part = [&](std::uint16_t no, std::vector<std::string> keys, const std::vector<std::string>& tensors,
                        std::size_t bytes) {
    keys.push_back(number("split.no", no));
    keys.push_back(number("split.count", 2));
    return gguf::file(keys, tensors, bytes);
  };
  // [512] has 144 bytes as Q2_0 and 136 as Q2_0_G128; [32, 512] has 4352 bytes only as Q2_0_G128.
  const std::string ambiguous = gguf::tensor("w", {512}, 42, 0), clear = gguf::tensor("v", {512, 32}, 42, 0);
  const TempFolder folder;
  write_text(folder / part_name(2, 2), part(1, {}, {ambiguous}, 160));
  write_text(folder / part_name(1, 2), part(0, {}, {}, 0));
  expect_error(Checkpoint::open(folder / part_name(1, 2)), Code::invalid_argument, "Q2_0 or Q2_0_G128");
  write_text(folder / part_name(1, 2), part(0, {}, {clear}, 4352));
  const auto decided = Checkpoint::open(folder / part_name(1, 2));
  ASSERT_TRUE(decided.ok()) << decided.error().str();
  EXPECT_EQ(decided->tensors()[1].type, StoredType::q2_0_g128);
  // [1, 320] has 128 bytes as TL2 (96 without its trailer) and 90 as Q2_0; general.file_type 41 says Q2_0.
  write_text(folder / part_name(1, 2), part(0, {gguf::key("general.file_type", 4, gguf::u32(41))}, {}, 0));
  write_text(folder / part_name(2, 2), part(1, {}, {gguf::tensor("w", {320, 1}, 42, 0)}, 96));
  const auto settled = Checkpoint::open(folder / part_name(1, 2));
  ASSERT_TRUE(settled.ok()) << settled.error().str();
  EXPECT_EQ(settled->tensors()[0].type, StoredType::q2_0);
}

TEST(Checkpoint, TheCorporaOpenOrAreRefusedAsTheirNamesSay) {
  if (source_tests().empty()) GTEST_SKIP() << "the source tree with tests/corpus is not here";
  std::size_t opened = 0;
  std::size_t refused = 0;
  for (const char* corpus : {"corpus/gguf", "corpus/safetensors"})
    for (const auto& entry : fs::directory_iterator(source_tests() / corpus)) {
      const auto checkpoint = Checkpoint::open(entry.path().string());
      const bool good = entry.path().filename().string().starts_with("ok_");
      EXPECT_EQ(checkpoint.ok(), good) << entry.path() << (checkpoint.ok() ? "" : checkpoint.error().str());
      ++(good ? opened : refused);
    }
  EXPECT_GE(opened, 14U);
  EXPECT_GE(refused, 30U);
}

// How much of a mapping is in memory now, by /proc.
std::size_t resident_kib(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  std::size_t total = 0;
  bool ours = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < 20 && line.find(" r") != std::string::npos) ours = line.ends_with(path);
    if (ours && line.starts_with("Rss:")) total += std::stoul(line.substr(4));
  }
  return total;
}

TEST(Checkpoint, ReleasedPagesLeaveTheProcessAndComeBack) {
  const TempFolder folder;
  const std::string path = folder / "big.safetensors";
  constexpr std::int64_t kBytes = 8 << 20;
  write_file(path, Container::safetensors, {}, {bytes_tensor("a", kBytes), bytes_tensor("b", kBytes)});
  const auto checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint.ok());
  const auto sum = [&](std::size_t index) {
    std::size_t total = 0;
    for (const std::uint8_t byte : checkpoint->data(index)) total += byte;
    return total;
  };
  const std::size_t expected = sum(0) + sum(1);
  const std::size_t touched = resident_kib(path);
  if (touched < 16 << 10) GTEST_SKIP() << "/proc/self/smaps does not tell of mapped files here";
  checkpoint->release(0, 0, kBytes);
  EXPECT_LT(resident_kib(path), (8 << 10) + 256U);
  checkpoint->release(1, 4 << 20, SIZE_MAX);  // no further than its end
  EXPECT_LT(resident_kib(path), (4 << 10) + 256U);
  checkpoint->release(1, kBytes, 1);
  checkpoint->release(2, 0, 1);
  EXPECT_EQ(sum(0) + sum(1), expected);
}

}  // namespace
}  // namespace tern
