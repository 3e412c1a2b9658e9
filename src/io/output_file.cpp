// Temporary file, big writes, fsync, rename.
#include "io/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "io/file_error.h"

namespace tern {
namespace {

constexpr mode_t kMode = 0666;  // less what the umask takes away, as for any file a program makes

// Whether a rename onto `path` would destroy something that is not a plain file, or one that is write-protected.
Status check_target(const std::string& path, std::string_view where) {
  struct stat target {};
  if (::stat(path.c_str(), &target) != 0) {  // follows a link: /dev/stdout is one
    if (errno == ENOENT) return {};          // nothing there, or a link to nothing, which is replaced
    return os_error(errno, where, "write", path);
  }
  if (S_ISDIR(target.st_mode))
    return error(Code::io_error, where, "cannot write '{}': it is a directory; name a file in it", path);
  if (!S_ISREG(target.st_mode))
    return error(Code::io_error, where,
                 "cannot write '{}': it is a device, pipe or socket, which cannot be replaced as a whole; name a file",
                 path);
  // rename() asks only the directory, but who protects a file wants it kept.
  if (::access(path.c_str(), W_OK) != 0) return os_error(errno, where, "write", path);
  return {};
}

// Calls write_some(rest) until nothing is left; 0, or the errno that stopped it.
template <class WriteSome>
int write_fully(std::span<const std::uint8_t> bytes, WriteSome&& write_some) {
  while (!bytes.empty()) {
    const ssize_t n = write_some(bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return 0;
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::string& path, std::string_view where) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (name.empty() || path.find('\0') != std::string::npos)
    return error(Code::io_error, where, "cannot write '{}': it does not name a file", path);
  TERN_RETURN_IF_ERROR(check_target(path, where));

  static std::atomic<unsigned> counter = 0;
  constexpr std::size_t kMaxStem = 200;  // so that a name of the longest length (255) has a temporary one too
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string temporary =
        fmt::format("{}.{}.{}.{}.tmp", folder, name.substr(0, kMaxStem), ::getpid(), counter.fetch_add(1));
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kMode);
    if (fd >= 0) return OutputFile(fd, path, std::move(temporary), where);
    if (errno == ENOENT)
      return error(Code::io_error, where, "cannot write '{}': there is no folder '{}'", path, folder);
    if (errno != EEXIST && errno != EINTR) return os_error(errno, where, "write", path);
  }
  return error(Code::io_error, where, "cannot write '{}': temporary names beside it are all taken", path);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      where_(other.where_),
      written_bytes_(other.written_bytes_) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status OutputFile::failed(int number) const { return os_error(number, where_, "write", path_); }

Status OutputFile::write(std::span<const std::uint8_t> bytes) {
  const int number = write_fully(bytes, [&](auto rest) { return ::write(fd_, rest.data(), rest.size()); });
  if (number != 0) return failed(number);
  written_bytes_ += bytes.size();
  return {};
}

Status OutputFile::overwrite(std::size_t offset, std::span<const std::uint8_t> bytes) {
  const int number = write_fully(bytes, [&](auto rest) {
    return ::pwrite(fd_, rest.data(), rest.size(), static_cast<off_t>(offset + (bytes.size() - rest.size())));
  });
  return number == 0 ? Status() : failed(number);
}

Status OutputFile::commit() {
  // Without the fsync a crash soon after could leave the name with an empty file. The folder is not synchronized:
  // after a crash either the old or the new file is there, whole.
  while (::fsync(fd_) != 0) {
    if (errno == EINVAL) break;  // a file system that cannot
    if (errno != EINTR) return failed(errno);
  }
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) return failed(errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return failed(errno);
  temporary_.clear();
  return {};
}

void ProgressMeter::advance(std::size_t bytes) {
  done_bytes_ += bytes;
  if (!callback_ || done_bytes_ < next_bytes_ || done_bytes_ >= total_bytes_) return;
  callback_(done_bytes_, total_bytes_);
  next_bytes_ = done_bytes_ + kStepBytes;
}

void ProgressMeter::finish() const {
  if (callback_) callback_(total_bytes_, total_bytes_);
}

}  // namespace tern
