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

// Files are read ahead in longer stretches than this, so checking one page of each is enough.
constexpr std::size_t kProbeBytes = std::size_t{128} << 10;

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
  // Checked before opening it: opening alone may rewind a device, or let a writer into a pipe that nobody will read.
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) TERN_RETURN_IF_ERROR(check_regular(info, where, path));
  // Without O_NONBLOCK, open() would wait for a writer if a pipe has taken the file's place since.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return os_error(errno, where, "open", path);
  if (::fstat(file.fd, &info) != 0) return os_error(errno, where, "look at", path);
  TERN_RETURN_IF_ERROR(check_regular(info, where, path));
  const auto size_bytes = static_cast<std::size_t>(info.st_size);
  if (size_bytes == 0) return std::shared_ptr<const MappedFile>(new MappedFile({}));  // mmap() refuses a length of 0
  void* data = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) return os_error(errno, where, "map", path);
  return std::shared_ptr<const MappedFile>(new MappedFile({static_cast<std::uint8_t*>(data), size_bytes}));
}

void MappedFile::release(std::size_t offset, std::size_t bytes) const {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (offset >= bytes_.size() || bytes == 0) return;
  // Pages shared with neighbouring bytes are released too; reading those again faults such a page in once more.
  const std::size_t begin = offset / page * page;
  const std::size_t end = offset + std::min(bytes, bytes_.size() - offset);
  ::madvise(bytes_.data() + begin, end - begin, MADV_DONTNEED);  // only advice, so a failure does not matter
}

void fetch_pages(std::span<const std::uint8_t> bytes) {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (bytes.empty()) return;
  const std::size_t before = reinterpret_cast<std::uintptr_t>(bytes.data()) % page;
  auto* begin = const_cast<std::uint8_t*>(bytes.data()) - before;  // NOLINT: system calls take a void*, nobody writes
  const std::size_t all = before + bytes.size();
  // If the pages are in memory, mapping them all costs more than the page faults of the threads that read them.
  bool in_memory = true;
  for (std::size_t at = 0; at < all && in_memory; at += kProbeBytes) {
    unsigned char resident = 0;
    in_memory = ::mincore(begin + at, 1, &resident) == 0 && (resident & 1) != 0;
  }
  if (in_memory) return;
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
