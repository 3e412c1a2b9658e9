// A whole regular file, mapped read-only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tern/status.h"

namespace tern {

// Its bytes stay where they are for as long as it lives. Nothing is read before it is touched; if somebody shortens
// the file meanwhile, touching what is gone raises SIGBUS, as with every mapping.
class MappedFile {
 public:
  // Directories, pipes and devices are refused: they have no length to check a header against.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path, std::string_view where);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::uint8_t> bytes() const { return bytes_; }
  // Lets the pages of a stretch leave this process; touching them again reads them again.
  void release(std::size_t offset, std::size_t bytes) const;

 private:
  explicit MappedFile(std::span<std::uint8_t> bytes) : bytes_(bytes) {}
  std::span<std::uint8_t> bytes_;  // not const because munmap takes a void*; nobody writes to them
};

// Brings in the pages of some mapped bytes: who reads them then waits for no file.
void fetch_pages(std::span<const std::uint8_t> bytes);

}  // namespace tern
