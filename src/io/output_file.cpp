// Temporary file, big writes, fsync, rename.
#include "io/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <utility>

#include "io/file_error.h"

namespace tern {
namespace {

constexpr mode_t kMode = 0666;         // minus the umask, as for any new file
constexpr std::size_t kMaxStem = 200;  // so that a name of 255 bytes, the longest allowed, has a temporary name
constexpr std::time_t kOldSeconds = 60;
constexpr int kMaxLinks = 40;  // Linux follows no more

struct Place {
  std::string folder;  // empty, or with its slash
  std::string name;
};
Place place_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash + 1), path.substr(slash + 1)};
}

// What the temporary names of an output begin with: ".NAME.PID.COUNTER.tmp".
std::string temporary_stem(const std::string& name) { return fmt::format(".{}.", name.substr(0, kMaxStem)); }

// The process in a temporary name, or 0.
pid_t owner_of(std::string_view file, std::string_view stem) {
  constexpr std::string_view kEnd = ".tmp";
  if (!file.starts_with(stem) || !file.ends_with(kEnd) || file.size() <= stem.size() + kEnd.size()) return 0;
  const std::string_view numbers = file.substr(stem.size(), file.size() - stem.size() - kEnd.size());
  const std::size_t dot = numbers.find('.');
  if (dot == 0 || dot == std::string_view::npos || dot > 9 || dot + 1 == numbers.size() ||
      numbers.find_first_not_of("0123456789", dot + 1) != std::string_view::npos)
    return 0;
  pid_t owner = 0;
  for (const char digit : numbers.substr(0, dot)) {
    if (digit < '0' || digit > '9') return 0;
    owner = owner * 10 + (digit - '0');
  }
  return owner;
}

// Whether no process writes this file any more. Its owner holds a lock on it. A new file may not be locked yet; it is
// recognised because it is young and its process is alive.
bool is_stale(const std::string& file, pid_t owner) {
  const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  struct stat info {};
  bool stale = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  const bool dead = ::kill(owner, 0) != 0 && errno == ESRCH;
  stale = stale && (dead || info.st_mtime + kOldSeconds < std::time(nullptr));
  ::close(fd);
  return stale;
}

// Removes temporary files of this output that killed processes left behind.
void remove_stale_outputs(const Place& place) {
  namespace fs = std::filesystem;
  const std::string stem = temporary_stem(place.name);
  std::error_code failure;
  for (fs::directory_iterator entry(place.folder.empty() ? "." : place.folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    const std::string file = entry->path().filename().string();
    if (const pid_t owner = owner_of(file, stem); owner > 0 && is_stale(place.folder + file, owner))
      ::unlink((place.folder + file).c_str());
  }
}

struct Target {
  std::string path;
  std::string shown;  // "link -> target" if the path is a link
  mode_t mode = 0;    // of the file that will be replaced; 0: there is none
};

// The path to which the output must be renamed so that links stay links. Refuses what a rename would destroy: anything
// but a regular file, and write-protected files.
Result<Target> find_target(const std::string& path, std::string_view where) {
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;  // follows links: /dev/stdout is one
  if (!exists && errno != ENOENT) return os_error(errno, where, "write", path);
  if (exists && S_ISDIR(info.st_mode))
    return file_error(Code::io_error, where, "cannot write '{}': it is a directory; name a file in it", path);
  if (exists && !S_ISREG(info.st_mode))
    return file_error(Code::io_error, where,
                      "cannot write '{}': it is {}, which cannot be replaced as a whole; name a file", path,
                      kind_of(info.st_mode));
  Target target{path, path, exists ? info.st_mode & 07777U : 0U};
  std::error_code no_link;
  for (int links = 0; links < kMaxLinks; ++links) {
    const std::filesystem::path next = std::filesystem::read_symlink(target.path, no_link);
    if (no_link) break;
    target.path = next.is_absolute() ? next.string() : place_of(target.path).folder + next.string();
    target.shown = fmt::format("{} -> {}", path, target.path);
  }
  // A link in /proc may lead to a file that was removed or never had a name.
  struct stat found {};
  const bool same = ::lstat(target.path.c_str(), &found) == 0
                        ? exists && found.st_dev == info.st_dev && found.st_ino == info.st_ino
                        : !exists;
  if (!same)
    return file_error(Code::io_error, where, "cannot write '{}': there is no file of this name at the end of the link",
                      target.shown);
  // rename() checks only the permissions of the directory, but a write-protected file should be kept.
  if (exists && ::access(target.path.c_str(), W_OK) != 0) return os_error(errno, where, "write", target.shown);
  return target;
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

Result<OutputStream> OutputStream::create(const ByteWriter& writer, std::string_view where) {
  if (!writer) return error(Code::invalid_argument, where, "the writer is empty; give a function that takes the bytes");
  return OutputStream(writer);
}

Status OutputStream::write(std::span<const std::uint8_t> bytes) {
  if (bytes.empty()) return {};
  TERN_RETURN_IF_ERROR((*writer_)(bytes));
  written_bytes_ += bytes.size();
  return {};
}

Result<OutputFile> OutputFile::create(const std::string& path, std::string_view where) {
  if (path.empty() || path.ends_with('/') || path.find('\0') != std::string::npos)
    return file_error(Code::io_error, where, "cannot write '{}': it does not name a file", path);
  TERN_ASSIGN(target, find_target(path, where));
  const Place place = place_of(target.path);
  if (place.name.empty())
    return file_error(Code::io_error, where, "cannot write '{}': it does not name a file", target.shown);
  remove_stale_outputs(place);

  static std::atomic<unsigned> counter = 0;
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string temporary =
        fmt::format("{}{}{}.{}.tmp", place.folder, temporary_stem(place.name), ::getpid(), counter.fetch_add(1));
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kMode);
    if (fd >= 0) {
      if (target.mode != 0) static_cast<void>(::fchmod(fd, target.mode));  // who could not read it still cannot
      ::flock(fd, LOCK_EX | LOCK_NB);  // for remove_stale_outputs(), which removes nothing if locks do not work
      return OutputFile(fd, std::move(target.path), std::move(target.shown), std::move(temporary), where);
    }
    const int number = errno;
    std::error_code ignored;
    if (number == ENOENT && !std::filesystem::exists(place.folder, ignored))  // /proc exists and fails with ENOENT, too
      return file_error(Code::io_error, where, "cannot write '{}': there is no folder '{}'", target.shown,
                        place.folder);
    if (number != EEXIST && number != EINTR) return os_error(number, where, "write", target.shown);
  }
  return file_error(Code::io_error, where, "cannot write '{}': temporary names beside it are all taken", target.shown);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : OutputBytes(other),
      fd_(std::exchange(other.fd_, -1)),
      target_(std::move(other.target_)),
      shown_(std::move(other.shown_)),
      temporary_(std::exchange(other.temporary_, {})),
      where_(other.where_) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status OutputFile::failed(int number) const { return os_error(number, where_, "write", shown_); }

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

Status OutputFile::skip(std::size_t bytes) {
  if (::lseek(fd_, static_cast<off_t>(bytes), SEEK_CUR) < 0) return failed(errno);
  written_bytes_ += bytes;
  return {};
}

Status OutputFile::commit() {
  // Without the fsync a crash soon after could leave the name with an empty file. The folder is not synchronized:
  // after a crash either the old or the new file is there, whole.
  while (::fsync(fd_) != 0) {
    if (errno == EINVAL) break;  // this file system cannot synchronize
    if (errno != EINTR) return failed(errno);
  }
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) return failed(errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return failed(errno);
  temporary_.clear();
  return {};
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code failure;
  return std::filesystem::equivalent(a, b, failure) && !failure;
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
