// Archives of stored (uncompressed) files, as .npz needs them: written, and read strictly from untrusted bytes.
//
//   [local header | name | extra | bytes] ... [central header | name | extra] ... [zip64 end, locator] [end]
//
// Sizes and offsets from 2^32 - 1 upward are stored in a zip64 extra field (id 1); their 32-bit fields are then all
// ones. More than 65534 entries, or a directory of that size or at that offset, need the zip64 end record.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/output_file.h"
#include "tern/status.h"

namespace tern {

struct ZipEntry {
  std::string_view name;
  std::span<const std::uint8_t> bytes;
  std::uint32_t crc = 0;
  std::size_t begin = 0;  // of its local header
  std::size_t end = 0;    // of its bytes
};

// The entries of an archive, as views into it. Headers that contradict each other, overlap, repeat a name or point
// outside are corrupt_file; compression and encryption are unsupported. The CRCs are not checked here.
Result<std::vector<ZipEntry>> read_zip(std::span<const std::uint8_t> archive);

// Whether the bytes are the ones that were stored.
Status verify_crc(const ZipEntry& entry);

// Appends entries to a file or a stream. Equal entries make equal archives: the time stamps are all 1980-01-01.
class ZipWriter {
 public:
  static constexpr std::uint64_t kZip64From = 0xFFFFFFFF;

  // `zip64_from` is the size or offset from which zip64 fields are used; tests lower it.
  explicit ZipWriter(OutputFile& file, std::uint64_t zip64_from = kZip64From)
      : out_(file), file_(&file), zip64_from_(zip64_from) {}
  explicit ZipWriter(OutputStream& stream, std::uint64_t zip64_from = kZip64From)
      : out_(stream), zip64_from_(zip64_from) {}

  // The entry is `head` followed by `body`.
  Status add(const std::string& name, std::span<const std::uint8_t> head, std::span<const std::uint8_t> body,
             ProgressMeter& meter);
  Status finish();  // writes the directory; call it once, last

 private:
  OutputBytes& out_;
  OutputFile* file_ = nullptr;  // set if bytes can be overwritten later
  std::uint64_t zip64_from_;
  std::string directory_;
  std::uint64_t count_ = 0;
};

}  // namespace tern
