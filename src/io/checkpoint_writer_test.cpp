// Writes checkpoints: pieces of any size, refused calls, full disks, and no files left behind.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>

#include "tern/checkpoint.h"
#include "tests/support/test_files.h"

namespace tern {
namespace {

const std::vector<StoredTensor> kTwo = {{.name = "a", .type = StoredType::i8, .shape = {1000}},
                                        {.name = "b", .type = StoredType::i8, .shape = {77}}};

TEST(CheckpointWriter, PiecesOfAnySizeMakeTheSameFile) {
  const TempFolder folder;
  std::string expected;
  for (const std::size_t piece : {1U, 7U, 100U, 1000U}) {
    auto writer = CheckpointWriter::create(folder / "x", Container::gguf, {}, kTwo);
    ASSERT_TRUE(writer.ok()) << writer.error().str();
    std::uint8_t next = 0;
    for (const StoredTensor& tensor : writer->tensors())
      for (std::size_t done = 0; done < tensor.bytes;) {
        std::vector<std::uint8_t> bytes(std::min(piece, tensor.bytes - done));
        for (std::uint8_t& byte : bytes) byte = next++;
        ASSERT_TRUE(writer->write(bytes).ok());
        done += bytes.size();
      }
    EXPECT_EQ(folder.count(), expected.empty() ? 1U : 2U);  // it has a temporary name until the end
    ASSERT_TRUE(writer->finish().ok());
    EXPECT_EQ(folder.count(), 1U);
    if (expected.empty()) expected = read_text(folder / "x");
    EXPECT_EQ(read_text(folder / "x"), expected);
  }
  // 1000 bytes, 24 zeros up to a multiple of 32, 77 bytes, 19 zeros.
  const std::string data = expected.substr(expected.size() - 1024 - 96);
  EXPECT_EQ(data.substr(1000, 24), std::string(24, '\0'));
  EXPECT_EQ(static_cast<std::uint8_t>(data[1024]), 1000 % 256);
  EXPECT_EQ(data.substr(1024 + 77), std::string(19, '\0'));
}

TEST(CheckpointWriter, TooFewAndTooManyBytesAreErrors) {
  const TempFolder folder;
  const std::vector<std::uint8_t> bytes(2000, 1);
  {
    auto writer = CheckpointWriter::create(folder / "x", Container::safetensors, {}, kTwo);
    ASSERT_TRUE(writer.ok());
    expect_error(writer->write(bytes), Code::invalid_argument, "2000 bytes for tensor 'a', which lacks 1000 of 1000");
    ASSERT_TRUE(writer->write(std::span(bytes).first(999)).ok());
    expect_error(writer->write(std::span(bytes).first(2)), Code::invalid_argument, "'a', which lacks 1 of 1000");
    expect_error(writer->finish(), Code::invalid_argument, "tensor 'a' lacks 1 of 1000 bytes");
    EXPECT_EQ(folder.count(), 0U);  // even before the writer is destroyed
    expect_error(writer->write(bytes), Code::invalid_argument, "finished, or an earlier write failed");
    expect_error(writer->finish(), Code::invalid_argument, "finished, or an earlier write failed");
  }
  auto writer = CheckpointWriter::create(folder / "x", Container::safetensors, {}, kTwo);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->write(std::span(bytes).first(1000)).ok());
  ASSERT_TRUE(writer->write({}).ok());
  ASSERT_TRUE(writer->write(std::span(bytes).first(77)).ok());
  expect_error(writer->write(std::span(bytes).first(1)), Code::invalid_argument, "1 bytes more than the tensors have");
  EXPECT_TRUE(writer->finish().ok());
  EXPECT_TRUE(Checkpoint::open(folder / "x").ok());
}

TEST(CheckpointWriter, WithoutFinishNothingIsLeftAndTheOldFileStays) {
  const TempFolder folder;
  write_text(folder / "x", "old");
  {
    auto writer = CheckpointWriter::create(folder / "x", Container::gguf, {}, kTwo);
    ASSERT_TRUE(writer.ok());
    EXPECT_EQ(folder.count(), 2U);
    const CheckpointWriter moved = *std::move(writer);
    EXPECT_EQ(moved.tensors().size(), 2U);
  }
  EXPECT_EQ(folder.count(), 1U);
  EXPECT_EQ(read_text(folder / "x"), "old");
}

TEST(CheckpointWriter, WrongArgumentsAreRefusedBeforeAFileIsMade) {
  const TempFolder folder;
  const auto create = [&](Container container, const Metadata& metadata, std::vector<StoredTensor> tensors) {
    return CheckpointWriter::create(folder / "x", container, metadata, std::move(tensors));
  };
  for (const Container container : {Container::safetensors, Container::gguf}) {
    expect_error(create(container, {}, {kTwo[0], kTwo[0]}), Code::invalid_argument, "two tensors 'a'");
    expect_error(create(container, {{"k", MetaValue("1")}, {"k", MetaValue("2")}}, kTwo), Code::invalid_argument,
                 "two keys 'k'");
  }
  expect_error(create(Container::safetensors, {{"k", MetaValue(1.5)}}, kTwo), Code::invalid_argument,
               "x': metadata 'k' is f64");
  expect_error(create(Container::gguf, {}, {{.name = "u", .type = StoredType::u8, .shape = {1}}}),
               Code::invalid_argument, "'u' is U8");
  EXPECT_EQ(folder.count(), 0U);
  expect_error(CheckpointWriter::create(folder / "no/x", Container::gguf, {}, kTwo), Code::io_error, "no folder");
}

TEST(CheckpointWriter, FullDiskIsAnErrorAndLeavesNothing) {
  const TempFolder folder;
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount a small disk to fill";
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "a small tmpfs cannot be mounted here";
  Status status;
  std::size_t left = 9;
  {
    auto writer = CheckpointWriter::create(folder / "x.gguf", Container::gguf, {},
                                           {{.name = "a", .type = StoredType::i8, .shape = {4 << 20}}});
    const std::vector<std::uint8_t> bytes(2 << 20, 'x');
    if (writer.ok()) {
      status = writer->write(bytes);
      left = folder.count();  // while the writer still lives: the space is freed at once
      EXPECT_FALSE(writer->write(bytes).ok());
      EXPECT_FALSE(writer->finish().ok());
    }
  }
  EXPECT_EQ(::umount(folder.path().c_str()), 0);
  expect_error(status, Code::io_error, "x.gguf': No space left on device");
  EXPECT_EQ(left, 0U);
}

// Small pieces are collected in memory, so a full disk may be noticed only at the end.
TEST(CheckpointWriter, FullDiskAtTheLastFlushIsAnError) {
  const TempFolder folder;
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount a small disk to fill";
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "a small tmpfs cannot be mounted here";
  Status status;
  {
    auto writer = CheckpointWriter::create(folder / "x.gguf", Container::gguf, {},
                                           {{.name = "a", .type = StoredType::i8, .shape = {100 << 10}}});
    ASSERT_TRUE(writer.ok());
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(writer->write(std::vector<std::uint8_t>(1 << 10, 'x')).ok());
    status = writer->finish();
  }
  const std::size_t left = folder.count();
  EXPECT_EQ(::umount(folder.path().c_str()), 0);
  expect_error(status, Code::io_error, "x.gguf': No space left on device");
  EXPECT_EQ(left, 0U);
}

// Bytes that are known only at the end, or that are copied while others are written.
TEST(CheckpointWriter, SkippedTensorsAndMetadataComeLater) {
  for (const Container container : {Container::safetensors, Container::gguf}) {
    const TempFolder folder;
    const Metadata before = {{"k", MetaValue("0000")}, {"other", MetaValue("stays")}};
    auto writer = CheckpointWriter::create(folder / "x", container, before, kTwo);
    ASSERT_TRUE(writer.ok()) << writer.error().str();
    const std::vector<std::uint8_t> b(77, 2);
    std::vector<std::uint8_t> a(1000);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::uint8_t>(i * 7);
    EXPECT_FALSE(writer->fill(0, a).ok()) << "it is not skipped yet";
    ASSERT_TRUE(writer->skip().ok());
    ASSERT_TRUE(writer->fill(0, std::span(a).first(1)).ok());
    ASSERT_TRUE(writer->write(std::span(b).first(7)).ok());
    expect_error(writer->skip(), Code::invalid_argument, "tensor 'b' has 7 of its bytes already");
    ASSERT_TRUE(writer->fill(0, std::span(a).subspan(1, 600)).ok());
    ASSERT_TRUE(writer->write(std::span(b).subspan(7)).ok());
    EXPECT_FALSE(writer->skip().ok()) << "nothing is left";
    expect_error(writer->fill(0, a), Code::invalid_argument, "1000 bytes for tensor 'a', which lacks 399 of 1000");
    EXPECT_FALSE(writer->fill(1, b).ok()) << "written, not skipped";
    ASSERT_TRUE(writer->fill(0, std::span(a).subspan(601)).ok());
    EXPECT_FALSE(writer
                     ->replace_metadata({{"k", MetaValue("a longer text, which moves everything behind it by a lot")},
                                         {"other", MetaValue("stays")},
                                         {"more", MetaValue("and another one")}})
                     .ok());
    ASSERT_TRUE(writer->replace_metadata({{"k", MetaValue("beef")}, {"other", MetaValue("stays")}}).ok());
    ASSERT_TRUE(writer->finish().ok());
    EXPECT_FALSE(writer->fill(0, a).ok() || writer->skip().ok());
    EXPECT_FALSE(writer->replace_metadata(before).ok());
    const auto read = Checkpoint::open(folder / "x");
    ASSERT_TRUE(read.ok()) << read.error().str();
    EXPECT_EQ(*find_key(read->metadata(), "k")->text(), "beef");
    EXPECT_TRUE(std::ranges::equal(read->data(*read->find("a")), a));
    EXPECT_TRUE(std::ranges::equal(read->data(*read->find("b")), b));
  }
}

TEST(CheckpointWriter, ASkippedTensorMustBeFilled) {
  const TempFolder folder;
  auto writer = CheckpointWriter::create(folder / "x.gguf", Container::gguf, {}, kTwo);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->write(std::vector<std::uint8_t>(1000)).ok());
  ASSERT_TRUE(writer->skip().ok()) << "the last one, too";
  ASSERT_TRUE(writer->fill(1, std::vector<std::uint8_t>(70)).ok());
  expect_error(writer->finish(), Code::invalid_argument, "tensor 'b' lacks 7 of 77 bytes");
  EXPECT_EQ(folder.count(), 0U);
}

}  // namespace
}  // namespace tern
