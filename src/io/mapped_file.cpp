// open, fstat, mmap, close; the mapping outlives the descriptor.
#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "io/file_error.h"

namespace tern {
namespace {

// Files are read ahead in longer stretches than these, so that a page of each is enough to ask for.
constexpr std::size_t kAskedBytes = std::size_t{128} << 10;

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Status check_regular(const struct stat& info, std::string_view where, const std::string& path) {
  if (S_ISREG(info.st_mode)) return {};
  return file_error(Code::io_error, where, "'{}' is {}, not a regular file{}", path, kind_of(info.st_mode),
                    S_ISDIR(info.st_mode) ? "" : "; write what it gives to a file first");
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path, std::string_view where) {
  // Looked at before it is opened: that alone may rewind a device, or let a writer into a pipe that nobody will read.
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) TERN_RETURN_IF_ERROR(check_regular(info, where, path));
  // Without O_NONBLOCK a pipe that has come since would hold us here until somebody writes to it.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return os_error(errno, where, "open", path);
  if (::fstat(file.fd, &info) != 0) return os_error(errno, where, "look at", path);
  TERN_RETURN_IF_ERROR(check_regular(info, where, path));
  const auto size_bytes = static_cast<std::size_t>(info.st_size);
  if (size_bytes == 0) return std::shared_ptr<const MappedFile>(new MappedFile({}));  // mmap refuses no bytes
  void* data = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) return os_error(errno, where, "map", path);
  return std::shared_ptr<const MappedFile>(new MappedFile({static_cast<std::uint8_t*>(data), size_bytes}));
}

void MappedFile::release(std::size_t offset, std::size_t bytes) const {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (offset >= bytes_.size() || bytes == 0) return;
  // Pages that a neighbour shares go too: whoever reads on pays for one of them once more.
  const std::size_t begin = offset / page * page;
  const std::size_t end = offset + std::min(bytes, bytes_.size() - offset);
  ::madvise(bytes_.data() + begin, end - begin, MADV_DONTNEED);  // advice: nothing depends on it
}

void fetch_pages(std::span<const std::uint8_t> bytes) {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (bytes.empty()) return;
  const std::size_t before = reinterpret_cast<std::uintptr_t>(bytes.data()) % page;
  auto* begin = const_cast<std::uint8_t*>(bytes.data()) - before;  // NOLINT: system calls take a void*, nobody writes
  const std::size_t all = before + bytes.size();
  bool there = true;  // in memory: to map them all costs more than the faults of those who read them
  for (std::size_t at = 0; at < all && there; at += kAskedBytes) {
    unsigned char resident = 0;
    there = ::mincore(begin + at, 1, &resident) == 0 && (resident & 1) != 0;
  }
  if (there) return;
#ifdef MADV_POPULATE_READ
  if (::madvise(begin, all, MADV_POPULATE_READ) == 0) return;
#endif
  for (std::size_t at = 0; at < all; at += page)  // Linux before 5.14
    (void)*static_cast<const volatile std::uint8_t*>(begin + at);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace tern
