// Output files: whole or not there, whatever the disk says.
#include "io/output_file.h"

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

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

// Runs in a child process, which may spoil its own limits and user; 0 means that the expectation held.
int in_child(const std::function<int()>& task) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(task());
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

// 0 when the status is an io_error with `part` in its message, and only `files` are left in the folder.
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
  EXPECT_EQ(folder.count(), 1U);  // the temporary one
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

TEST(OutputFile, ReplacesFilesAndLinksButNotWhatLinksPointTo) {
  const TempFolder folder;
  write_text(folder / "x.bin", "old");
  fs::create_symlink("x.bin", folder / "link");
  fs::create_symlink("nowhere", folder / "dangling");
  ASSERT_TRUE(write_whole(folder / "link", "new").ok());
  ASSERT_TRUE(write_whole(folder / "dangling", "new").ok());
  EXPECT_FALSE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_text(folder / "link"), "new");
  EXPECT_EQ(read_text(folder / "dangling"), "new");
  EXPECT_EQ(read_text(folder / "x.bin"), "old");
  ASSERT_TRUE(write_whole(folder / "x.bin", "newer").ok());
  EXPECT_EQ(read_text(folder / "x.bin"), "newer");
  EXPECT_EQ(folder.count(), 3U);
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
  expect_error(write_whole(folder / "pipe", "x"), Code::io_error, "it is a device, pipe or socket");
  expect_error(write_whole(folder / "null", "x"), Code::io_error, "it is a device, pipe or socket");
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
