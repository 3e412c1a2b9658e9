// Output files: complete or absent, whatever errors the disk reports.
#include "io/output_file.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "base/errors.h"
#include "tests/support/test_files.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

Status write_whole(const std::string& path, const std::string& text) {
  auto file = OutputFile::create(path, "test");
  if (!file.ok()) return std::move(file).error();
  Status status = file->write(bytes_of(text));
  return status.ok() ? file->commit() : std::move(status);
}

// Runs the task in a child process, which may change its limits and user; 0 means that the expectation held.
int in_child(const std::function<int()>& task) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(task());
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

// 0 if the status is an io_error with `part` in its message and the folder holds exactly this many files.
int judge(const Status& status, std::string_view part, const TempFolder& folder, std::size_t files) {
  if (status.ok()) return 2;
  if (status.code() != Code::io_error) return 3;
  if (status.error().message.find(part) == std::string::npos) return 4;
  return folder.count() == files ? 0 : 5;
}

TEST(OutputFile, AppearsOnlyWhenItIsWhole) {
  const TempFolder folder;
  const std::string path = folder / "x.bin";
  auto file = OutputFile::create(path, "test");
  ASSERT_TRUE(file.ok()) << file.error().str();
  ASSERT_TRUE(file->write(bytes_of("hello ")).ok());
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(folder.count(), 1U);  // the temporary file
  ASSERT_TRUE(file->write(bytes_of("world")).ok());
  ASSERT_TRUE(file->overwrite(0, bytes_of("J")).ok());
  EXPECT_EQ(file->written_bytes(), 11U);
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(read_text(path), "Jello world");
  EXPECT_EQ(folder.count(), 1U);
}

TEST(OutputFile, WithoutCommitNothingIsLeftAndTheOldOneStays) {
  const TempFolder folder;
  write_text(folder / "x.bin", "old");
  {
    auto file = OutputFile::create(folder / "x.bin", "test");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write(bytes_of("new")).ok());
    const OutputFile moved = *std::move(file);
    EXPECT_EQ(folder.count(), 2U);
  }
  EXPECT_EQ(folder.count(), 1U);
  EXPECT_EQ(read_text(folder / "x.bin"), "old");
}

TEST(OutputFile, FollowsLinksWhichStay) {
  const TempFolder folder;
  fs::create_directory(folder / "sub");
  write_text(folder / "sub/x.bin", "old");
  fs::create_symlink("sub/x.bin", folder / "link");
  fs::create_symlink(folder / "link", folder / "chain");
  fs::create_symlink("../link", folder / "sub/back");
  for (const char* name : {"link", "chain", "sub/back", "sub/../sub/./back"}) {
    SCOPED_TRACE(name);
    const Status written = write_whole(folder / name, name);
    ASSERT_TRUE(written.ok()) << written.error().str();
    EXPECT_EQ(read_text(folder / "sub/x.bin"), name);
  }
  for (const char* name : {"link", "chain", "sub/back"}) EXPECT_TRUE(fs::is_symlink(folder / name)) << name;
  EXPECT_FALSE(fs::is_symlink(folder / "sub/x.bin"));
  EXPECT_EQ(folder.count(), 3U);
}

// The temporary file is next to the link's target, because the link may be on another disk or in a full folder.
TEST(OutputFile, ADanglingLinkGetsWhatItNames) {
  const TempFolder folder;
  fs::create_directory(folder / "sub");
  fs::create_symlink("sub/x.bin", folder / "link");
  {
    const auto file = OutputFile::create(folder / "link", "test");
    ASSERT_TRUE(file.ok()) << file.error().str();
    EXPECT_EQ(folder.count(), 2U) << "nothing beside the link";
    EXPECT_FALSE(fs::is_empty(folder / "sub"));
  }
  EXPECT_TRUE(fs::is_empty(folder / "sub"));
  ASSERT_TRUE(write_whole(folder / "link", "new").ok());
  EXPECT_EQ(read_text(folder / "sub/x.bin"), "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  fs::create_symlink("none/x.bin", folder / "lost");
  expect_error(write_whole(folder / "lost", "x"), Code::io_error, "lost -> " + folder / "none/x.bin");
  expect_error(write_whole(folder / "lost", "x"), Code::io_error, "there is no folder '");
  fs::create_symlink("round", folder / "round");
  expect_error(write_whole(folder / "round", "x"), Code::io_error, "symbolic links");
}

// Such as /dev/stdout: root could replace the device itself by a file.
TEST(OutputFile, WhatLinksLeadToIsNoDevice) {
  const TempFolder folder;
  if (::mknod((folder / "null").c_str(), S_IFCHR | 0600, ::makedev(1, 3)) != 0)
    GTEST_SKIP() << "only root can make a device";
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* name : {"null", "pipe"}) {
    fs::create_symlink(name, folder / (std::string("to_") + name));
    struct stat before {
    }, after{};
    ASSERT_EQ(::stat((folder / name).c_str(), &before), 0);
    for (const std::string& path : {folder / name, folder / (std::string("to_") + name)})
      expect_error(write_whole(path, "x"), Code::io_error,
                   std::string("it is ") + (name[0] == 'n' ? "a device" : "a pipe") + ", which cannot be replaced");
    ASSERT_EQ(::lstat((folder / name).c_str(), &after), 0);
    EXPECT_EQ(before.st_ino, after.st_ino);
    EXPECT_EQ(before.st_mode, after.st_mode);
  }
  EXPECT_EQ(folder.count(), 4U);
}

// For an open file that was removed, the link in /proc holds no usable name.
TEST(OutputFile, AFileWithoutANameIsRefused) {
  const TempFolder folder;
  if (!fs::exists("/proc/self/fd")) GTEST_SKIP() << "there is no /proc";
  const int fd = ::open((folder / "gone").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(fd, 0);
  fs::create_symlink("/proc/self/fd/" + std::to_string(fd), folder / "link");
  ASSERT_TRUE(write_whole(folder / "link", "x").ok()) << "it has a name as yet";
  EXPECT_EQ(read_text(folder / "gone"), "x");
  fs::remove(folder / "gone");
  expect_error(write_whole(folder / "link", "x"), Code::io_error, "there is no file of this name at the end");
  ::close(fd);
  EXPECT_EQ(folder.count(), 1U);
}

// Processes that were killed leave their temporary files; those that live keep theirs.
TEST(OutputFile, TheNextOneClearsUp) {
  const TempFolder folder;
  const std::string dead = folder / ".x.bin.999999999.7.tmp";
  const std::string living = folder / (".x.bin." + std::to_string(::getpid()) + ".99999.tmp");
  const std::string others = folder / ".y.bin.999999999.7.tmp", odd = folder / ".x.bin.1x.7.tmp";
  for (const std::string& file : {dead, living, others, odd}) write_text(file, "bytes");
  fs::create_symlink("x.bin", folder / "link");
  ASSERT_TRUE(write_whole(folder / "link", "x").ok());
  EXPECT_FALSE(fs::exists(dead));
  for (const std::string& file : {living, others, odd}) EXPECT_TRUE(fs::exists(file)) << file;
}

TEST(OutputStream, HandsOnTheBytesAndTheError) {
  std::string taken;
  const ByteWriter writer = [&](std::span<const std::uint8_t> bytes) -> Status {
    if (taken.size() + bytes.size() > 8) return error(Code::io_error, "test", "full");
    taken += text_of(bytes);
    return {};
  };
  auto out = OutputStream::create(writer, "test");
  ASSERT_TRUE(out.ok());
  EXPECT_TRUE(out->write(bytes_of("hello ")).ok());
  EXPECT_TRUE(out->write({}).ok());
  EXPECT_EQ(out->written_bytes(), 6U);
  expect_error(out->write(bytes_of("world")), Code::io_error, "full");
  EXPECT_EQ(taken, "hello ");
  expect_error(OutputStream::create(ByteWriter(), "test"), Code::invalid_argument, "the writer is empty");
}

TEST(OutputFile, HasTheModeThatTheUmaskLeaves) {
  const TempFolder folder;
  const mode_t before = ::umask(027);
  const Status status = write_whole(folder / "x.bin", "x");
  ::umask(before);
  ASSERT_TRUE(status.ok());
  struct stat info {};
  ASSERT_EQ(::stat((folder / "x.bin").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0640U);
}

TEST(OutputFile, KeepsTheModeOfTheFileThatItReplaces) {
  const TempFolder folder;
  const std::string path = folder / "secret.bin";
  ASSERT_TRUE(write_whole(path, "x").ok());
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  ASSERT_TRUE(write_whole(path, "y").ok());
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST(OutputFile, LongestNameWorks) {
  const TempFolder folder;
  EXPECT_TRUE(write_whole(folder / std::string(255, 'n'), "x").ok());
  expect_error(write_whole(folder / std::string(256, 'n'), "x"), Code::io_error, "File name too long");
  EXPECT_EQ(folder.count(), 1U);
}

TEST(OutputFile, PathsThatCannotBeWrittenAreNamed) {
  const TempFolder folder;
  fs::create_directory(folder / "sub");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink("/dev/null", folder / "null");
  write_text(folder / "file", "x");
  expect_error(write_whole(folder / "missing/x.bin", "x"), Code::io_error, "missing/x.bin': there is no folder '");
  if (std::filesystem::exists("/proc/self"))  // a folder that takes no files
    expect_error(write_whole("/proc/tern.bin", "x"), Code::io_error, "'/proc/tern.bin': No such file");
  expect_error(write_whole(folder / "file/x.bin", "x"), Code::io_error, "file/x.bin': Not a directory");
  expect_error(write_whole(folder / "sub", "x"), Code::io_error, "it is a directory; name a file in it");
  expect_error(write_whole(folder / "sub/", "x"), Code::io_error, "it does not name a file");
  expect_error(write_whole("", "x"), Code::io_error, "it does not name a file");
  expect_error(write_whole(std::string("a\0b", 3), "x"), Code::io_error, "it does not name a file");
  expect_error(write_whole(folder / "pipe", "x"), Code::io_error, "it is a pipe");
  expect_error(write_whole(folder / "null", "x"), Code::io_error, "it is a device");
  expect_error(write_whole("/dev/full", "x"), Code::io_error, "cannot write '/dev/full': it is a device");
  expect_error(write_whole("/proc/tern.npy", "x"), Code::io_error, "cannot write '/proc/tern.npy'");
  EXPECT_EQ(folder.count(), 4U);
}

TEST(OutputFile, ProtectedFilesAndFoldersAreKept) {
  const TempFolder folder;
  write_text(folder / "kept", "old");
  ASSERT_EQ(::chmod((folder / "kept").c_str(), 0444), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  constexpr uid_t kNobody = 65534;  // root may write anywhere, so the child stops being root
  const auto drop_root = [] { return ::geteuid() != 0 || ::setuid(kNobody) == 0; };
  EXPECT_EQ(in_child([&] {
              return drop_root() ? judge(write_whole(folder / "kept", "new"), "Permission denied", folder, 1) : 9;
            }),
            0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0555), 0);
  EXPECT_EQ(in_child([&] {
              return drop_root() ? judge(write_whole(folder / "x", "new"), "x': Permission denied", folder, 1) : 9;
            }),
            0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  EXPECT_EQ(read_text(folder / "kept"), "old");
}

TEST(OutputFile, SizeLimitIsAnErrorAndLeavesNothing) {
  const TempFolder folder;
  EXPECT_EQ(in_child([&] {
              ::signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{4096, 4096};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 9;
              // 4096 bytes fit, so this is also a short write followed by a refused one.
              return judge(write_whole(folder / "x.bin", std::string(10000, 'x')), "x.bin': File too large", folder, 0);
            }),
            0);
}

TEST(OutputFile, FullDiskIsAnErrorAndLeavesNothing) {
  const TempFolder folder;
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount a small disk to fill";
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "a small tmpfs cannot be mounted here";
  const Status status = write_whole(folder / "x.bin", std::string(1 << 20, 'x'));
  const std::size_t left = folder.count();
  EXPECT_EQ(::umount(folder.path().c_str()), 0);
  expect_error(status, Code::io_error, "x.bin': No space left on device");
  EXPECT_EQ(left, 0U);
}

}  // namespace
}  // namespace tern
