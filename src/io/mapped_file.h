// A whole regular file, mapped read-only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tern/status.h"

namespace tern {

// The bytes keep their address as long as the object lives. A page is read when it is first touched. If the file is
// truncated meanwhile, touching the lost pages raises SIGBUS, as with every mapping.
class MappedFile {
 public:
  // Directories, pipes and devices are refused: they have no length to check a header against.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path, std::string_view where);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::uint8_t> bytes() const { return bytes_; }
  // Removes the pages of a range from this process; touching them again reads them again.
  void release(std::size_t offset, std::size_t bytes) const;

 private:
  explicit MappedFile(std::span<std::uint8_t> bytes) : bytes_(bytes) {}
  std::span<std::uint8_t> bytes_;  // not const because munmap takes a void*; nobody writes to them
};

// Reads the pages of mapped bytes into memory, so that later reads do not wait for the file.
void fetch_pages(std::span<const std::uint8_t> bytes);

}  // namespace tern
