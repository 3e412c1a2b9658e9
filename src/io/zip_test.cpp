// Stored zip archives: written and read back, truncated and damaged at every byte.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/crc32.h"
#include "io/mapped_file.h"
#include "io/zip_store.h"
#include "tests/support/test_files.h"

namespace tern {
namespace {

const Progress kSilent;

// An archive of "a" = 123 and "bc" = 45678, its zip64 fields used from `zip64_from` on.
std::string two_entries(std::uint64_t zip64_from) {
  const TempFolder folder;
  auto file = OutputFile::create(folder / "x.zip", "test");
  EXPECT_TRUE(file.ok());
  ProgressMeter meter(kSilent, 8);
  ZipWriter zip(*file, zip64_from);
  EXPECT_TRUE(zip.add("a", bytes_of("1"), bytes_of("23"), meter).ok());
  EXPECT_TRUE(zip.add("bc", bytes_of("45678"), {}, meter).ok());
  EXPECT_TRUE(zip.finish().ok());
  EXPECT_TRUE(file->commit().ok());
  return read_text(folder / "x.zip");
}

// The contents as "name=bytes;", or the error. The input lies exactly at the end of its allocation.
std::string contents(const std::string& archive) {
  const std::vector<std::uint8_t> exact(archive.begin(), archive.end());
  const auto entries = read_zip(exact);
  if (!entries.ok()) return entries.error().str();
  std::string text;
  for (const ZipEntry& entry : *entries) {
    const Status status = verify_crc(entry);
    if (!status.ok()) return status.error().str();
    text += std::string(entry.name) + "=" + std::string(text_of(entry.bytes)) + ";";
  }
  return text;
}

void expect_corrupt(const std::string& archive, std::string_view part) {
  EXPECT_NE(contents(archive).find(part), std::string::npos) << "'" << part << "' is not in: " << contents(archive);
}

// The archive with the bytes at `offset` replaced.
std::string bent(std::string archive, std::size_t offset, std::string_view bytes) {
  return archive.replace(offset, bytes.size(), bytes);
}

TEST(Crc32, KnownValuesAtEverySplitAndAlignment) {
  const std::string text = "xThe quick brown fox jumps over the lazy dog";
  const auto bytes = bytes_of(text).subspan(1);
  EXPECT_EQ(crc32(0, bytes_of("123456789")), 0xCBF43926U);
  EXPECT_EQ(crc32(0, {}), 0U);
  for (std::size_t split = 0; split <= bytes.size(); ++split)
    EXPECT_EQ(crc32(crc32(0, bytes.first(split)), bytes.subspan(split)), 0x414FA339U) << split;
}

TEST(Zip, WhatIsWrittenIsReadWithEveryUseOfZip64) {
  // From 0 every field is in zip64; from 4 the second size and offset are; from 32 the offsets are; else none.
  for (const std::uint64_t from : {std::uint64_t{0}, std::uint64_t{4}, std::uint64_t{32}, ZipWriter::kZip64From})
    EXPECT_EQ(contents(two_entries(from)), "a=123;bc=45678;") << from;
  EXPECT_NE(two_entries(0).find("PK\6\6"), std::string::npos);
  EXPECT_EQ(two_entries(ZipWriter::kZip64From).find("PK\6\6"), std::string::npos);
}

TEST(Zip, EqualEntriesMakeEqualArchives) {
  EXPECT_EQ(two_entries(ZipWriter::kZip64From), two_entries(ZipWriter::kZip64From));
}

TEST(Zip, EntriesBeyond4GiBAreFoundInASparseFile) {
  // The bytes of 'a' get a hole of 5 GiB, and every size and offset that includes it grows by as much.
  constexpr std::uint64_t kHole = std::uint64_t{5} << 30;
  std::string archive = two_entries(0);
  const std::size_t local_b = archive.find("PK\3\4", 1);
  const std::size_t central_a = archive.find("PK\1\2");
  const std::size_t central_b = archive.find("PK\1\2", central_a + 1);
  const std::size_t sizes_a = 30 + 1 + 4;  // after the header, the name and the head of the extra field
  const std::size_t central_sizes_a = central_a + 46 + 1 + 4;
  const std::size_t central_offset_b = central_b + 46 + 2 + 4 + 16;
  for (const std::size_t at : {sizes_a, sizes_a + 8, central_sizes_a, central_sizes_a + 8, central_offset_b,
                               archive.find("PK\6\6") + 48, archive.find("PK\6\7") + 8}) {
    std::string grown;
    append_le(grown, read_le<std::uint64_t>(bytes_of(archive), at) + kHole);
    archive.replace(at, 8, grown);
  }
  const TempFolder folder;
  write_text(folder / "x.zip", archive.substr(0, local_b));
  std::filesystem::resize_file(folder / "x.zip", local_b + kHole);
  std::ofstream(folder / "x.zip", std::ios::binary | std::ios::app) << archive.substr(local_b);

  const auto file = MappedFile::open(folder / "x.zip", "test");
  ASSERT_TRUE(file.ok()) << file.error().str();
  const auto entries = read_zip((*file)->bytes());
  ASSERT_TRUE(entries.ok()) << entries.error().str();
  ASSERT_EQ(entries->size(), 2U);
  EXPECT_EQ((*entries)[0].bytes.size(), 3 + kHole);
  EXPECT_EQ((*entries)[1].begin, local_b + kHole);
  EXPECT_EQ(text_of((*entries)[1].bytes), "45678");
  EXPECT_TRUE(verify_crc((*entries)[1]).ok());
}

TEST(Zip, EveryTruncationIsRefused) {
  for (const std::uint64_t from : {std::uint64_t{0}, ZipWriter::kZip64From}) {
    const std::string archive = two_entries(from);
    for (std::size_t n = 0; n < archive.size(); ++n)
      EXPECT_EQ(contents(archive.substr(0, n)).substr(0, 12), "corrupt_file") << n;
  }
}

TEST(Zip, EveryChangedByteIsAnErrorOrChangesNothing) {
  for (const std::uint64_t from : {std::uint64_t{0}, ZipWriter::kZip64From}) {
    const std::string archive = two_entries(from);
    for (std::size_t i = 0; i < archive.size(); ++i)
      for (int bit = 0; bit < 8; ++bit) {
        std::string changed = archive;
        changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
        const std::string found = contents(changed);
        const bool refused = found.starts_with("corrupt_file") || found.starts_with("unsupported");
        EXPECT_TRUE(refused || found == "a=123;bc=45678;") << i << ' ' << bit << ": " << found;
      }
  }
}

TEST(Zip, HostileArchivesAreNamed) {
  const std::string archive = two_entries(ZipWriter::kZip64From);
  const std::size_t central = archive.find("PK\1\2");
  const std::size_t second = archive.find("PK\1\2", central + 1);
  const std::size_t end = archive.find("PK\5\6");
  ASSERT_NE(second, std::string::npos);

  expect_corrupt("", "the file is empty");
  expect_corrupt("\x93NUMPY and so on, long enough", "begins with '\\x93NUM', not with PK");
  expect_corrupt(archive + "x", "do not end with a directory");
  expect_corrupt(bent(bent(archive, 8, "\x08"), central + 10, "\x08"),
                 "unsupported: 'a' is compressed; save it with numpy.savez, not savez_compressed");
  expect_corrupt(bent(archive, central + 10, "\x0C"), "unsupported: 'a' is stored by method 12");
  expect_corrupt(bent(archive, central + 8, "\x01"), "unsupported: 'a' is encrypted");
  expect_corrupt(bent(archive, 8, "\x08"), "differ in flags or method");
  expect_corrupt(bent(archive, 30, "b"), "the directory says 'a' where the entry says 'b'");
  expect_corrupt(bent(archive, 14, "\xAA"), "differ in size or CRC");
  expect_corrupt(bent(archive, 31, "9"), "'a' is damaged: its CRC-32 is");
  expect_corrupt(bent(archive, central + 20, "\x04"), "stored as it is, but in 4 bytes instead of 3");
  expect_corrupt(bent(archive, central + 42, "\xFF\xFF\xFF\x7F"), "at byte 2147483647, where no entry begins");
  expect_corrupt(bent(archive, central + 42, "\xFF\xFF\xFF\xFF"), "has no zip64 field");
  expect_corrupt(bent(archive, central + 28, "\xFF\xFF"), "longer than the directory");
  expect_corrupt(bent(archive, 26, "\xFF\xFF"), "the header of 'a' runs into the directory");
  expect_corrupt(bent(archive, second, "XX"), "entry 1 of the directory does not begin at byte");
  expect_corrupt(bent(archive, end + 8, std::string("\x03\0\x03\0", 4)), "of 95 bytes cannot have 3 entries");
  expect_corrupt(bent(archive, end + 8, std::string("\x01\0\x01\0", 4)), "bytes follow the last entry");
  expect_corrupt(bent(archive, end + 8, "\x01"), "counts 1 and 2 entries");
  expect_corrupt(bent(archive, end + 4, "\x01"), "unsupported: the archive is split over several disks");
  expect_corrupt(bent(archive, end + 12, "\x01"), "but it must end at byte");
  const std::string big = "\xFF\xFF\xFF\x7F";
  std::string long_a = archive;
  for (const std::size_t at : {std::size_t{18}, std::size_t{22}, central + 20, central + 24})
    long_a = bent(long_a, at, big);
  expect_corrupt(long_a, "the directory gives 'a' 2147483647 bytes, but");
}

// A stream cannot be overwritten, so the CRC is computed first, with and without zip64.
TEST(Zip, AStreamHasTheBytesOfAFile) {
  for (const std::uint64_t zip64_from : {ZipWriter::kZip64From, std::uint64_t{4}, std::uint64_t{0}}) {
    std::string streamed;
    const ByteWriter writer = [&](std::span<const std::uint8_t> bytes) {
      streamed += text_of(bytes);
      return Status();
    };
    auto out = OutputStream::create(writer, "test");
    ASSERT_TRUE(out.ok());
    ProgressMeter meter(kSilent, 8);
    ZipWriter zip(*out, zip64_from);
    ASSERT_TRUE(zip.add("a", bytes_of("1"), bytes_of("23"), meter).ok());
    ASSERT_TRUE(zip.add("bc", bytes_of("45678"), {}, meter).ok());
    ASSERT_TRUE(zip.finish().ok());
    EXPECT_EQ(streamed, two_entries(zip64_from)) << zip64_from;
    EXPECT_EQ(contents(streamed), "a=123;bc=45678;");
  }
}

TEST(Zip, OverlapsAndRepeatedNamesAreRefused) {
  // Both directory entries point to the first local header.
  const TempFolder folder;
  auto file = OutputFile::create(folder / "x.zip", "test");
  ASSERT_TRUE(file.ok());
  ProgressMeter meter(kSilent, 6);
  ZipWriter zip(*file);
  ASSERT_TRUE(zip.add("a", bytes_of("123"), {}, meter).ok());
  ASSERT_TRUE(zip.add("b", bytes_of("123"), {}, meter).ok());
  ASSERT_TRUE(zip.finish().ok());
  ASSERT_TRUE(file->commit().ok());
  const std::string archive = read_text(folder / "x.zip");
  const std::size_t local_b = archive.find("PK\3\4", 1);
  const std::size_t central_b = archive.find("PK\1\2", archive.find("PK\1\2") + 1);
  const std::string renamed = bent(bent(archive, local_b + 30, "a"), central_b + 46, "a");
  expect_corrupt(renamed, "'a' is in it twice");

  // Entry a claims the local header and bytes of b as its own bytes, with the CRC left as it is: overlap comes first.
  std::string nested = archive;
  const auto length = static_cast<char>(archive.find("PK\1\2") - 31);
  for (const std::size_t at :
       {std::size_t{18}, std::size_t{22}, archive.find("PK\1\2") + 20, archive.find("PK\1\2") + 24})
    nested[at] = length;
  expect_corrupt(nested, "'a' and 'b' overlap");
}

TEST(Zip, CommentsAreSkippedButMustHaveTheirLength) {
  std::string archive = two_entries(ZipWriter::kZip64From);
  archive[archive.size() - 2] = 5;
  expect_corrupt(archive, "do not end with a directory");
  EXPECT_EQ(contents(archive + "hello"), "a=123;bc=45678;");
  expect_corrupt(archive + "hell", "do not end with a directory");
}

}  // namespace
}  // namespace tern
