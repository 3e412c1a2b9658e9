// NpyFile, save_npy and save_raw on real files.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "base/errors.h"
#include "tern/io.h"
#include "tests/support/test_files.h"

namespace tern {
namespace {

std::vector<std::uint8_t> iota_bytes(std::size_t n) {
  std::vector<std::uint8_t> bytes(n);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{1});
  return bytes;
}

TEST(NpyFile, EveryDtypeAndShapeRoundTrips) {
  const TempFolder folder;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::i8, DType::u8, DType::i32})
    for (const Shape& shape :
         {Shape(), Shape{0}, Shape{5}, Shape{3, 0, 2}, Shape{2, 3, 4}, Shape{1, 1, 1, 1, 1, 1, 1, 9}}) {
      SCOPED_TRACE(std::string(name(dtype)) + name(shape));
      const auto bytes = iota_bytes(static_cast<std::size_t>(*element_count(shape)) * size_of(dtype));
      const std::string path = folder / "x.npy";
      ASSERT_TRUE(save_npy(path, ConstTensorView(bytes.data(), dtype, shape)).ok());
      const auto file = NpyFile::open(path);
      ASSERT_TRUE(file.ok()) << file.error().str();
      EXPECT_EQ(file->path(), path);
      EXPECT_EQ(file->view().dtype, dtype);
      EXPECT_EQ(file->view().shape, shape);
      EXPECT_TRUE(bytes.empty() || std::memcmp(file->view().data, bytes.data(), bytes.size()) == 0);
      EXPECT_EQ(folder.count(), 1U);
    }
}

TEST(RawFile, EveryDtypeAndShapeRoundTrips) {
  const TempFolder folder;
  const std::string path = folder / "x.bin";
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i32})
    for (const Shape& shape : {Shape(), Shape{0}, Shape{5}, Shape{2, 3, 4}}) {
      SCOPED_TRACE(std::string(name(dtype)) + name(shape));
      const auto bytes = iota_bytes(static_cast<std::size_t>(*element_count(shape)) * size_of(dtype));
      ASSERT_TRUE(save_raw(path, ConstTensorView(bytes.data(), dtype, shape)).ok());
      EXPECT_EQ(std::filesystem::file_size(path), bytes.size());
      const auto file = NpyFile::open_raw(path, dtype, shape);
      ASSERT_TRUE(file.ok()) << file.error().str();
      EXPECT_EQ(file->view().dtype, dtype);
      EXPECT_EQ(file->view().shape, shape);
      EXPECT_TRUE(bytes.empty() || std::memcmp(file->view().data, bytes.data(), bytes.size()) == 0);
    }
}

TEST(RawFile, StridedRowsAreWrittenDense) {
  const TempFolder folder;
  const auto bytes = iota_bytes(12);
  ASSERT_TRUE(save_raw(folder / "x.bin", ConstTensorView(bytes.data(), DType::u8, {2, 4}, {8, 1}, {})).ok());
  const auto file = NpyFile::open_raw(folder / "x.bin", DType::u8, {8});
  ASSERT_TRUE(file.ok());
  const std::uint8_t want[] = {1, 2, 3, 4, 9, 10, 11, 12};
  EXPECT_EQ(std::memcmp(file->view().data, want, 8), 0);
}

TEST(RawFile, WhatDoesNotFitIsRefused) {
  const TempFolder folder;
  const std::string path = folder / "x.bin";
  const auto bytes = iota_bytes(24);
  ASSERT_TRUE(save_raw(path, ConstTensorView(bytes.data(), DType::u8, {24})).ok());
  for (const std::int64_t k : {3, 5})
    expect_error(NpyFile::open_raw(path, DType::bf16, {k, 3}), Code::invalid_argument,
                 "has 24 bytes, but [" + std::to_string(k) + ", 3] of bf16 needs " + std::to_string(6 * k));
  expect_error(NpyFile::open_raw(path, DType::f64, {INT64_MAX}), Code::invalid_argument, "2^63 - 1");
  expect_error(NpyFile::open_raw(path, DType::f32, {-6}), Code::invalid_argument, "-6");
  expect_error(NpyFile::open_raw(folder / "no.bin", DType::f32, {6}), Code::io_error, "no.bin");
  ASSERT_TRUE(save_npy(path, ConstTensorView(bytes.data(), DType::u8, {24})).ok());
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path));
  expect_error(NpyFile::open_raw(path, DType::u8, {size}), Code::invalid_argument, "is a .npy file");
}

TEST(NpyFile, CopiesKeepTheMappingAlive) {
  const TempFolder folder;
  const float x[] = {1.5F, 2.5F};
  ASSERT_TRUE(save_npy(folder / "x.npy", ConstTensorView(x, DType::f32, {2})).ok());
  ConstTensorView view;
  auto copy = [&]() -> NpyFile {
    const auto file = NpyFile::open(folder / "x.npy");
    EXPECT_TRUE(file.ok());
    return *file;
  }();
  std::filesystem::remove(folder / "x.npy");
  view = copy.view();
  EXPECT_EQ(static_cast<const float*>(view.data)[1], 2.5F);
}

TEST(NpyFile, UnalignedDataIsServed) {
  const TempFolder folder;
  std::string file("\x93NUMPY\1\0\x38\0", 10);
  file += "{'descr':'<f4','fortran_order':False,'shape':(1,)}";
  file[8] = static_cast<char>(file.size() - 10);
  ASSERT_NE(file.size() % 64, 0U);
  file += std::string("\0\0\x80\x3F", 4);
  write_text(folder / "x.npy", file);
  const auto opened = NpyFile::open(folder / "x.npy");
  ASSERT_TRUE(opened.ok()) << opened.error().str();
  float value = 0;
  std::memcpy(&value, opened->view().data, sizeof(value));
  EXPECT_EQ(value, 1.0F);
}

TEST(NpyFile, WhatCannotBeOpenedIsNamed) {
  const TempFolder folder;
  expect_error(NpyFile::open(folder / "none.npy"), Code::io_error, "none.npy': No such file or directory");
  expect_error(NpyFile::open(folder.path().string()), Code::io_error, "is a directory, not a regular file");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_error(NpyFile::open(folder / "pipe"), Code::io_error, "is a pipe, not a regular file");
  expect_error(NpyFile::open("/dev/zero"), Code::io_error, "is a device, not a regular file");
  expect_error(NpyFile::open(folder / "pipe"), Code::io_error, "write what it gives to a file first");
  // open() fails for a socket, so the error can name it only because the file is checked before opening.
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string socket = folder / "socket";
  ASSERT_LT(socket.size(), sizeof(name.sun_path));
  socket.copy(name.sun_path, socket.size());
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  expect_error(NpyFile::open(socket), Code::io_error, "is a socket, not a regular file");
  ::close(listener);
  write_text(folder / "empty.npy", "");
  expect_error(NpyFile::open(folder / "empty.npy"), Code::corrupt_file, "empty.npy': the file is empty");
  const auto junk = (write_text(folder / "junk.npy", "hello"), NpyFile::open(folder / "junk.npy"));
  expect_error(junk, Code::corrupt_file, "junk.npy': it begins with 'hello'");
  EXPECT_EQ(junk.error().where, "NpyFile::open");
  write_text(folder / "text.npy",
             std::string("\x93NUMPY\1\0\x33\0", 10) + "{'descr':'|S1','fortran_order':False,'shape':(1,),}a");
  expect_error(NpyFile::open(folder / "text.npy"), Code::unsupported, "'|S1' is text");
}

TEST(NpyFile, CorpusIsAnsweredAsItsNamesSay) {
  if (source_tests().empty()) GTEST_SKIP() << "the source tree with tests/corpus is not here";
  std::size_t good = 0;
  std::size_t bad = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_tests() / "corpus/npy")) {
    const auto file = NpyFile::open(entry.path().string());
    const bool expected = entry.path().filename().string().substr(0, 3) == "ok_";
    EXPECT_EQ(file.ok(), expected) << entry.path() << (file.ok() ? "" : file.error().str());
    ++(expected ? good : bad);
  }
  EXPECT_GE(good, 6U);
  EXPECT_GE(bad, 12U);
}

TEST(NpyFile, GoldenFileOfNumpy) {
  if (source_tests().empty()) GTEST_SKIP() << "the source tree with tests/data is not here";
  const std::string golden = (source_tests() / "data/f32_2x3.npy").string();
  const float x[] = {1.5F, -2, 0, 3, 4.25F, -0.0F};
  const auto file = NpyFile::open(golden);
  ASSERT_TRUE(file.ok()) << file.error().str();
  EXPECT_EQ(file->view().shape, (Shape{2, 3}));
  EXPECT_EQ(std::memcmp(file->view().data, x, sizeof(x)), 0);

  const TempFolder folder;
  ASSERT_TRUE(save_npy(folder / "x.npy", ConstTensorView(x, DType::f32, {2, 3})).ok());
  EXPECT_EQ(read_text(folder / "x.npy"), read_text(golden));
}

TEST(SaveNpy, StridedViewsAreGathered) {
  const TempFolder folder;
  std::vector<std::int32_t> x(2 * 3 * 4);
  std::iota(x.begin(), x.end(), 0);
  struct Case {
    std::int64_t offset;
    Shape shape;
    Shape strides;
    std::vector<std::int32_t> expected;
  };
  for (const Case& c : {Case{0, {4, 3}, {1, 4}, {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}},  // transposed
                        Case{1, {2, 3, 2}, {12, 4, 1}, {1, 2, 5, 6, 9, 10, 13, 14, 17, 18, 21, 22}},
                        Case{23, {3}, {-8}, {23, 15, 7}},        // backward
                        Case{5, {2, 2}, {0, 0}, {5, 5, 5, 5}},   // one element for all
                        Case{0, {2, 1, 12}, {12, 99, 1}, x}}) {  // dense after all
    ASSERT_TRUE(
        save_npy(folder / "x.npy", ConstTensorView(x.data() + c.offset, DType::i32, c.shape, c.strides, {})).ok());
    const auto file = NpyFile::open(folder / "x.npy");
    ASSERT_TRUE(file.ok()) << file.error().str();
    const auto* values = static_cast<const std::int32_t*>(file->view().data);
    EXPECT_EQ(std::vector<std::int32_t>(values, values + c.expected.size()), c.expected) << name(c.shape);
  }
}

TEST(WriteNpy, AStreamHasTheBytesOfAFile) {
  const TempFolder folder;
  std::vector<float> x(600 * 1000);  // more than one chunk
  std::iota(x.begin(), x.end(), 0.0F);
  std::string streamed;
  const ByteWriter writer = [&](std::span<const std::uint8_t> bytes) {
    streamed += text_of(bytes);
    return Status();
  };
  for (const ConstTensorView& view : {ConstTensorView(x.data(), DType::f32, {600, 1000}),
                                      ConstTensorView(x.data(), DType::f32, {1000, 600}, {1, 1000}, {}),
                                      ConstTensorView(x.data(), DType::f32, {0, 3})}) {
    std::size_t reported = 0, total = 1;
    const Progress progress = [&](std::size_t done, std::size_t all) { reported = done, total = all; };
    streamed.clear();
    ASSERT_TRUE(write_npy(writer, view, progress).ok());
    EXPECT_EQ(reported, total);
    EXPECT_EQ(total, streamed.size());
    ASSERT_TRUE(save_npy(folder / "x.npy", view).ok());
    EXPECT_TRUE(streamed == read_text(folder / "x.npy")) << name(view.shape);
    streamed.clear();
    ASSERT_TRUE(write_raw(writer, view).ok());
    ASSERT_TRUE(save_raw(folder / "x.bin", view).ok());
    EXPECT_TRUE(streamed == read_text(folder / "x.bin")) << name(view.shape);
  }
}

TEST(WriteNpy, TheErrorOfTheWriterIsTheAnswer) {
  const std::vector<float> x(600 * 1000);
  const ConstTensorView view(x.data(), DType::f32, {600, 1000});
  std::size_t taken = 0, calls_after = 0;
  const ByteWriter full = [&](std::span<const std::uint8_t> bytes) -> Status {
    if (taken > 1'000'000) ++calls_after;
    taken += bytes.size();
    if (taken > 1'000'000) return error(Code::io_error, "disk", "full at {}", 1'000'000);
    return {};
  };
  expect_error(write_npy(full, view), Code::io_error, "full at 1000000");
  EXPECT_EQ(calls_after, 0U) << "nothing comes behind an error";
  expect_error(write_npy({}, view), Code::invalid_argument, "the writer is empty");
  expect_error(write_npy(full, ConstTensorView(x.data(), DType::bf16, {3})), Code::unsupported, "bf16");
  expect_error(write_raw(full, ConstTensorView(nullptr, DType::f32, {3})), Code::invalid_argument, "null");
}

TEST(SaveNpy, BigStridedRowsCrossTheBuffer) {
  const TempFolder folder;
  constexpr std::int64_t kRows = 700;
  constexpr std::int64_t kStride = 4099;
  constexpr std::int64_t kColumns = 4001;  // 700 rows of 4 kB: several buffers, none of them full
  std::vector<std::uint8_t> x(kRows * kStride);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint8_t>(i * 31 % 251);
  ASSERT_TRUE(
      save_npy(folder / "x.npy", ConstTensorView(x.data(), DType::u8, {kRows, kColumns}, {kStride, 1}, {})).ok());
  const auto file = NpyFile::open(folder / "x.npy");
  ASSERT_TRUE(file.ok()) << file.error().str();
  for (std::int64_t row = 0; row < kRows; ++row)
    ASSERT_EQ(
        std::memcmp(static_cast<const std::uint8_t*>(file->view().data) + row * kColumns, &x[row * kStride], kColumns),
        0)
        << row;
}

TEST(SaveNpy, ProgressComesNowAndThenAndEndsWhole) {
  const TempFolder folder;
  const std::vector<std::uint8_t> x(std::size_t{11} << 20);
  std::vector<std::pair<std::size_t, std::size_t>> calls;
  const auto note = [&](std::size_t done, std::size_t total) { calls.emplace_back(done, total); };
  ASSERT_TRUE(save_npy(folder / "x.npy", ConstTensorView(x.data(), DType::u8, {11 << 20}), note).ok());
  const std::size_t total = std::filesystem::file_size(folder / "x.npy");
  ASSERT_EQ(calls.size(), 3U);
  for (const auto& call : calls) EXPECT_EQ(call.second, total);
  EXPECT_LT(calls[0].first, calls[1].first);
  EXPECT_LT(calls[1].first, total);
  EXPECT_EQ(calls[2].first, total);
}

TEST(SaveNpy, ViewsThatCannotBeWrittenLeaveNoFile) {
  const TempFolder folder;
  const std::string path = folder / "x.npy";
  const float x[4] = {};
  expect_error(save_npy(path, ConstTensorView(x, DType::bf16, {4})), Code::unsupported, "bf16 has no name in .npy");
  expect_error(save_npy(path, ConstTensorView(nullptr, DType::f32, {4})), Code::invalid_argument, "[4] is null");
  expect_error(save_npy(path, ConstTensorView(x, DType::f32, {-4})), Code::invalid_argument, "-4");
  expect_error(save_npy(path, ConstTensorView(x, DType::f32, {INT64_MAX})), Code::invalid_argument, "2^63 - 1");
  expect_error(save_npy(path, ConstTensorView(x, DType::f32, {2, 2}, {1}, {})), Code::invalid_argument, "strides");
  expect_error(save_npy(path, ConstTensorView(x, DType::f32, {4}, {DeviceKind::cuda, 0})), Code::invalid_argument,
               "on cuda:0; copy it to the host first");
  EXPECT_EQ(folder.count(), 0U);
}

}  // namespace
}  // namespace tern
